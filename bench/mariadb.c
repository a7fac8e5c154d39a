// SPDX-License-Identifier: GPL-2.0-only
/*
 * MariaDB in a memcg smaller than its buffer pool, which is smaller than the
 * database, and sysbench's oltp_read_write beside it: what the drive that holds
 * nothing but swap gets to do for a transaction. Four client threads, rows drawn
 * uniformly, O_DIRECT; 3,000 warm-up and 1,500 counted transactions, all of which
 * have to end. Needs the tables that box/tables prepares (ROOT=mariadb).
 *
 *   mariadb          memcg 128 MiB, pool 176 MiB, 4 tables of 250,000 rows
 *   mariadb-iocost   the same with io.cost on for the drive
 *   mariadb-256      memcg 256 MiB, pool 352 MiB, 8 tables
 *
 * Frames of the pool are overwritten while they are swapped out, since the
 * database doesn't fit either. A pool that holds all of it shows nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/bench.h"

#define WARMUP		3000U
#define COUNTED		1500U
#define SWAP		(2048 * KIB)	/* KiB */
#define RUN		"/run/mysqld"
#define SOCKET		RUN "/mysqld.sock"
#define LOG		"/tmp/swapbench.log"

static struct drive drive;

static bool ended(pid_t pid, int *status, int flags)
{
	return waitpid(pid, status, flags) == pid;
}

static pid_t server_start(size_t limit, unsigned int pool_mib)
{
	char pool[64];
	const char *const server[] = {
		"mariadbd", "--no-defaults", "--user=mysql", "--datadir=/var/lib/mysql",
		"--socket=" SOCKET, "--pid-file=" RUN "/pid", "--skip-networking",
		"--skip-log-bin", "--performance-schema=0", "--innodb-flush-method=O_DIRECT",
		"--innodb-buffer-pool-load-at-startup=0", "--innodb-buffer-pool-dump-at-shutdown=0",
		pool, NULL
	};
	const char *const ping[] = {
		"mariadb-admin", "--no-defaults", "--socket=" SOCKET, "--silent", "ping", NULL
	};
	const char *const dir[] = { "install", "-d", "-o", "mysql", "-g", "mysql", RUN, NULL };
	int status;
	pid_t pid;

	if (access("/usr/sbin/mariadbd", X_OK) || access("/usr/bin/sysbench", X_OK))
		skip("no mariadbd and sysbench here (ROOT=mariadb)");
	if (run_cmd(dir))
		die(RUN " cannot be made");
	snprintf(pool, sizeof(pool), "--innodb-buffer-pool-size=%uM", pool_mib);
	pid = start("mariadb", limit, "/tmp/mariadbd.log", server);
	for (int i = 0; i < 600; i++) {
		if (ended(pid, &status, WNOHANG))
			die("mariadbd ended before it was ready, status %#x: /tmp/mariadbd.log", status);
		if (!access(SOCKET, F_OK) && !run_cmd(ping))
			return pid;
		sleep_ms(200);
	}
	die("mariadbd does not answer");
}

/* So many transactions, each of which has to end. */
static void transactions(unsigned int nr, unsigned int tables, uint64_t seed)
{
	char events[32], table_arg[32], rand_arg[64], text[16384], *at;
	const char *const client[] = {
		"sysbench", "oltp_read_write", "--db-driver=mysql", "--mysql-socket=" SOCKET,
		"--mysql-user=root", "--table-size=250000", "--threads=4", "--time=0",
		"--rand-type=uniform", events, table_arg, rand_arg, "run", NULL
	};
	unsigned int done = 0;
	int status;

	snprintf(events, sizeof(events), "--events=%u", nr);
	snprintf(table_arg, sizeof(table_arg), "--tables=%u", tables);
	snprintf(rand_arg, sizeof(rand_arg), "--rand-seed=%llu", (unsigned long long)seed);
	ended(start(NULL, 0, LOG, client), &status, 0);
	read_text(LOG, text, sizeof(text));
	at = strstr(text, "transactions:");
	if (status || !at || sscanf(at, "transactions: %u", &done) != 1 || done != nr)
		die("sysbench: status %#x, %u of %u transactions: %.200s", status, done, nr,
		    strlen(text) > 200 ? text + strlen(text) - 200 : text);
}

void mariadb_main(const char *name)
{
	bool large = !strcmp(name, "mariadb-256"), iocost = !strcmp(name, "mariadb-iocost");
	unsigned int tables = large ? 8 : 4;
	const char *part = part_path(4);
	uint64_t in, out, oom;
	struct drive_stat a, b;
	double reads, writes;
	char path[160], dev[64];
	int status;
	pid_t pid;

	thp_only(0, "never");
	drive_of(part, &drive);
	drive_check(&drive);
	swap_part_on(part, SWAP);
	if (iocost) {
		snprintf(path, sizeof(path), "/sys/block/%s/dev", drive.name);
		read_text(path, dev, sizeof(dev));
		dev[strcspn(dev, "\n")] = '\0';
		write_text("/sys/fs/cgroup/cgroup.subtree_control", "+io");
		write_text("/sys/fs/cgroup/io.cost.qos", "%s enable=1", dev);
	}
	pid = server_start((large ? 256 : 128) * MIB, large ? 352 : 176);

	transactions(WARMUP, tables, bench_seed);
	drive_wait(&drive);
	drive_stat(&drive, &a);
	in = vmstat("pswpin");
	out = vmstat("pswpout");
	transactions(COUNTED, tables, bench_seed + 1000);
	drive_wait(&drive);
	drive_stat(&drive, &b);
	in = vmstat("pswpin") - in;
	out = vmstat("pswpout") - out;
	reads = b.reads - a.reads;
	writes = b.writes - a.writes;

	if (ended(pid, &status, WNOHANG))
		die("mariadbd ended during the run, status %#x", status);
	oom = cgroup_event("mariadb", "memory.events", "oom_kill");
	if (oom)
		die("%llu processes killed for want of memory", (unsigned long long)oom);
	emit("transactions", "count", COUNTED);
	emit("read_reqs_per_tx", "requests", reads / COUNTED);
	emit("write_reqs_per_tx", "requests", writes / COUNTED);
	emit("sum_reqs_per_tx", "requests", (reads + writes) / COUNTED);
	emit("pages_in_per_tx", "pages", (double)in / COUNTED);
	emit("pages_out_per_tx", "pages", (double)out / COUNTED);
	emit("pages_per_read", "pages", reads ? in / reads : 0);
	emit("pages_per_write", "pages", writes ? out / writes : 0);
	/* InnoDB verifies the checksum of each page that it reads or writes. */
	kill(pid, SIGTERM);
	ended(pid, &status, 0);
	if (status)
		die("mariadbd did not shut down well, status %#x", status);
	if (iocost)
		write_text("/sys/fs/cgroup/io.cost.qos", "%s enable=0", dev);
}
