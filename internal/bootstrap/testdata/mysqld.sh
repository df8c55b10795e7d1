# shellcheck shell=bash disable=SC2154 # the variables are the script's
# Runs inside the instance image (TestRealMySQLD) with the functions of the user data, but without systemd.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /var/lib/cloud/data /run/mysqld
echo i-0123456789abcdef0 >/var/lib/cloud/data/instance-id
chown mysql /run/mysqld
zcat -f user-data.sh | sed '/^case \${1:-setup} in/,$d' >functions.sh
# shellcheck source=/dev/null
. ./functions.sh
set +e +o pipefail
mkdir -p "$tls" "$root"
mountpoint() { :; }
fail() { say "failed: $*"; exit 1; }
log=/tmp/mysqld.log
journalctl() { cat "$log"; }

check() { echo "CHECK $1=$2"; }
sql() { mysql --no-defaults -h 127.0.0.1 -u nairobi_operator --ssl-cert=operator.pem --ssl-key=operator.key -N -B -e "$1" 2>/tmp/sql.log; }

# start is what systemd does: prepare, serve, and started if the server came up. Its result says whether it did.
start() {
	rm -f /run/mysqld/*
	(set -euo pipefail; prepare) || return 1
	: >/tmp/mysqld.log
	setpriv --reuid mysql --regid mysql --init-groups /bin/bash "$run/serve" >>/tmp/mysqld.log 2>&1 &
	pid=$!
	until grep -q 'ready for connections' /tmp/mysqld.log; do
		kill -0 "$pid" 2>/dev/null || return 1
		sleep 0.1
	done
	started
}
stop() {
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	return 0
}

(configure; keys; : >"$conf/launch.cnf"; : >"$conf/redo.cnf") || exit 1
find_mysqld
mkdir -p /tmp/empty && chown mysql /tmp/empty
if "$mysqld" --defaults-file="$conf/my.cnf" --datadir=/tmp/empty --validate-config; then check 'configuration is valid' yes; fi

start || { cat /tmp/mysqld.log; exit 1; }
check server_id "$(sql 'SELECT @@server_id')"
check 'gtid_executed of a new server' "$(sql 'SELECT @@gtid_executed')"
check super_read_only "$(sql 'SELECT @@super_read_only')"
check 'max_connections of the launch' "$(sql 'SELECT @@max_connections')"
check 'sql_mode of the launch' "$(sql 'SELECT @@GLOBAL.sql_mode')"
check 'time zone of the launch' "$(sql 'SELECT @@GLOBAL.time_zone')"
check 'time zones' "$(sql "SELECT CONVERT_TZ('2026-01-01 00:00:00', 'UTC', 'Asia/Tokyo'); SET GLOBAL time_zone = 'Africa/Nairobi'; SET GLOBAL time_zone = DEFAULT" || cat /tmp/sql.log)"
check 'names of tables' "$(sql 'SELECT @@lower_case_table_names')"
check plug-ins "$(sql "SELECT GROUP_CONCAT(plugin_name ORDER BY plugin_name) FROM information_schema.plugins WHERE plugin_status = 'ACTIVE' AND (plugin_name = 'clone' OR plugin_name LIKE 'rpl_semi%')")"
check 'semi-sync time-out' "$(sql 'SELECT @@rpl_semi_sync_source_timeout')"
check "CLONE's certificate" "$(sql 'SELECT @@clone_ssl_cert')"
check 'private key over SQL' "$(sql "SELECT LOAD_FILE('$tls/member.key')")"
check 'request over SQL' "$(sql "SELECT LOAD_FILE('$exchange/member.csr') LIKE '-----BEGIN CERTIFICATE REQUEST-----%'")"
check 'instance id over SQL' "$(sql "SELECT LOAD_FILE('$exchange/instance-id')")"
check 'disk over SQL' "$(sql "SELECT LOAD_FILE('$exchange/machine/disk') = CONCAT('$(cat "$exchange/machine/disk")', CHAR(10))")"
read -r size free at <"$exchange/machine/disk"
if [ "$size" = "$(df -B1 --output=size "$root" | tail -1 | tr -d ' ')" ] && [ "$free" -le "$size" ] && [ $(($(date +%s) - at)) -lt 60 ]; then check 'disk seen by the operator' yes; fi
check 'exchange folder' "$(stat -c '%U %G %a' "$exchange")"
sql "SELECT 'x' INTO DUMPFILE '$exchange/cert-00.pem'" && check 'certificate over SQL' delivered
setpriv --reuid mysql --regid mysql --init-groups mv "$exchange/machine" "$exchange/other" 2>/dev/null || setpriv --reuid mysql --regid mysql --init-groups rm -f "$exchange/member.csr" 2>/dev/null || check "root's files in the exchange" kept
rm -f "$exchange/cert-00.pem"
mysql --no-defaults -h 127.0.0.1 -u nairobi_operator -e 'SELECT 1' >/dev/null 2>&1 || check 'operator without certificate' denied
mysql --no-defaults -S /run/mysqld/mysqld.sock -u root -e 'SELECT 1' >/dev/null 2>&1 || check root denied

sql "SET GLOBAL super_read_only = OFF; CREATE DATABASE x"
for engine in MyISAM MEMORY MERGE InnoDB; do
	# Without this mode, which the settings above leave out, MySQL makes an InnoDB table in their stead.
	if sql "SET sql_mode = 'NO_ENGINE_SUBSTITUTION'; CREATE TABLE x.$engine (a INT PRIMARY KEY) ENGINE = $engine"; then check $engine made; else check $engine refused; fi
done
# The logs that a user switches on.
systemctl() { case "$*" in *is-active*) ;; *) kill -USR1 "$pid" ;; esac; }
sql "SET GLOBAL general_log = ON"
mysql --no-defaults -h 127.0.0.1 -u nobody >/dev/null 2>&1
check 'general log over SQL' "$(sql "SELECT LOAD_FILE('$exchange/logs/general.log') LIKE '%Access denied for user _nobody_%'")"
for n in 1 2; do
	truncate -s 16M "$exchange/logs/general.log"
	rotate
	mysql --no-defaults -h 127.0.0.1 -u "late$n" >/dev/null 2>&1
	rotate
	for _ in $(seq 50); do
		mysql --no-defaults -h 127.0.0.1 -u "after$n" >/dev/null 2>&1
		! grep -q "after$n" "$exchange/logs/general.log" || break
		sleep 0.1
	done
	check "rotation $n" "$(grep -ac "'late$n'" "$exchange/logs/general.log.1") $(stat -c '%U %G %a' "$exchange/logs/general.log") $(grep -q "after$n" "$exchange/logs/general.log" && echo followed)"
done
sql "SET GLOBAL general_log = OFF"
sql "INSTALL COMPONENT 'file://component_validate_password'"
sql "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '192.0.2.1', SOURCE_AUTO_POSITION = 1"
executed=$(sql 'SELECT @@gtid_executed') uuid=$(sql 'SELECT @@server_uuid')
stop

start
[ "$(sql 'SELECT @@gtid_executed')" != "$executed" ] || check 'start makes no transaction' yes
grep -q -e 'init_file' -e '\[ERROR\]' /tmp/mysqld.log || check 'accounts under a password rule' usable
stop

# A stranger's data: what would run inside the server, and what would get at the operator's accounts.
start
sql "SET sql_log_bin = 0; SET GLOBAL super_read_only = OFF;
	INSTALL PLUGIN mysql_no_login SONAME 'mysql_no_login.so';
	CREATE USER friend IDENTIFIED BY 'Long-enough-1'; CREATE USER nairobi_other@'10.%' IDENTIFIED BY 'Long-enough-1' ACCOUNT LOCK; CREATE USER r IDENTIFIED BY 'Long-enough-1';
	GRANT 'nairobi_operator'@'%' TO friend; GRANT r TO nairobi_operator; SET DEFAULT ROLE r TO nairobi_operator;
	INSERT INTO mysql.proxies_priv (Host, User, Proxied_host, Proxied_user, With_grant, Grantor) VALUES ('%', 'friend', '%', 'nairobi_operator', 0, '');
	ALTER USER nairobi_operator WITH MAX_QUERIES_PER_HOUR 100000 FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME UNBOUNDED COMMENT 'mine';
	CREATE DEFINER = root@localhost EVENT x.e ON SCHEDULE EVERY 1 SECOND DO SET GLOBAL max_connections = 77" || cat /tmp/sql.log
for _ in $(seq 600); do
	[ "$(sql 'SELECT @@max_connections')" != 77 ] || break
	sleep 0.1
done
check 'events of the old server' "$(sql 'SELECT @@max_connections')"
sql 'SET sql_log_bin = 0; TRUNCATE mysql.time_zone_name'
executed=$(sql 'SELECT @@gtid_executed')
stop
printf '[mysqld]\ninit_file=/tmp/evil.sql\n' >"$data/my.cnf"
touch "$data/private_key.pem" "$data/mysqld.my"
ln -s "$tls/member.key" "$data/x/t.CSV"
echo 'another-cluster orders-0' >"$marker"
start >/tmp/start.log && cat /tmp/mysqld.log
grep -q "holds $data/x/t.CSV, a link" /tmp/start.log && check 'adopted: a link out of the directory' refused
rm "$data/x/t.CSV"
functions=$(declare -f configure)
log=/tmp/start.log
eval "${functions/lower_case_table_names=1/lower_case_table_names=0}"
start >/tmp/start.log 2>&1
if grep -q 'failed: adopt: the data was made with lower_case_table_names=1, the cluster with 0: ' /tmp/start.log; then check 'adopted: other names of tables' refused; else cat /tmp/start.log; fi
eval "$functions"
log=/tmp/mysqld.log
start || cat /tmp/mysqld.log
# shellcheck disable=SC2012
check 'adopted: files' "$(cd "$data" && ls my.cnf private_key.pem mysqld.my 2>/dev/null | wc -l)"
check 'adopted: plug-ins' "$(sql "SELECT (SELECT COUNT(*) FROM mysql.plugin) + (SELECT COUNT(*) FROM mysql.component) + (SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'mysql_no_login')")"
check 'adopted: accounts' "$(sql "SELECT GROUP_CONCAT(CONCAT(User, '@', Host, ' ', max_questions, ' ', User_attributes IS NULL) ORDER BY User) FROM mysql.user WHERE User LIKE 'nairobi%' OR User = 'friend'")"
check 'adopted: roles and proxies' "$(sql "SELECT (SELECT COUNT(*) FROM mysql.role_edges) + (SELECT COUNT(*) FROM mysql.default_roles) + (SELECT COUNT(*) FROM mysql.proxies_priv WHERE Proxied_user LIKE 'nairobi%')")"
sleep 3
check 'adopted: time zones' "$(sql "SELECT CONVERT_TZ('2026-01-01 00:00:00', 'UTC', 'Asia/Tokyo')")"
check 'adopted: events' "$(sql "SELECT CONCAT(@@event_scheduler, ' ', @@max_connections)")"
sql "SET sql_log_bin = 0; SET GLOBAL super_read_only = OFF; DROP EVENT x.e; SET GLOBAL super_read_only = ON" || cat /tmp/sql.log
[ "$(sql 'SELECT @@server_uuid')" = "$uuid" ] || check 'adopted: server_uuid changed' yes
[ "$(sql 'SELECT @@gtid_executed')" != "$executed" ] || check 'adopted: gtid_executed kept' yes
check 'adopted: replication channels' "$(sql 'SELECT COUNT(*) FROM performance_schema.replication_connection_configuration')"
check 'adopted: super_read_only' "$(sql 'SELECT @@super_read_only')"

sql 'SET PERSIST max_connections = 62; SET PERSIST_ONLY innodb_buffer_pool_size = 33554432'
stop
sed -i 's/"33554432"/"nonsense"/' "$data/mysqld-auto.cnf"
start || start || start
sql 'RESET PERSIST innodb_buffer_pool_size; SET PERSIST innodb_buffer_pool_size = 33554432' && check 'bad persisted setting' undone
stop
start
check 'persisted settings are in force' "$(sql 'SELECT @@max_connections')"
stop

# A new volume, and a setting that mysqld does not start with beside one that counts from a start on.
rm -rf "$data" "$marker" "$conf/launched" "$root/adopted"
functions=$(declare -f prepare)
eval "${functions/loose_sql_mode=\"ANSI_QUOTES,STRICT_ALL_TABLES\"/loose_sql_mode=\"NO_SUCH_MODE\"}"
tries=1
until start; do
	[ $((tries += 1)) -le 5 ] || exit 1
done
check 'bad setting of the launch' "$tries $(sql "SELECT CONCAT(@@max_connections, ' ', @@persisted_globals_load)")"
# What the operator does over SQL: the bad one is refused by its name, and the others are persisted.
sql "SET PERSIST sql_mode = 'NO_SUCH_MODE'" || check 'bad setting over SQL' "$(grep -o 'NO_SUCH_MODE' /tmp/sql.log)"
sql 'SET PERSIST_ONLY innodb_ft_min_token_size = 4; SET PERSIST max_connections = 63'
stop
start && check 'settings beside the bad one' "$(sql "SELECT CONCAT(@@innodb_ft_min_token_size, ' ', @@max_connections)")"
stop
