#!/bin/bash
set -euo pipefail
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
member='orders-1'
identity='7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f orders-1'
version='9.7.4'
places='https://mirror.example/mysql-9.7.4-linux-glibc2.28-x86_64.tar.xz'
sha256='0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a'
keys=''
expiries=''
volume='vol-0123456789abcdef0'
token='0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'
ca='-----BEGIN CERTIFICATE-----
MIIBrzCCAVagAwIBAgIIQ3hpbGQgQ0EwCgYIKoZIzj0EAwIwQzEtMCsGA1UEChMk
N2Q5ZjZjMWUtM2M1NC00ZjBhLTlkMWMtMGExYjJjM2Q0ZTVmMRIwEAYDVQQDEwlv
cmRlcnMtY2E=
-----END CERTIFICATE-----'
conf=/etc/nairobi-mysql
tls=$conf/tls
exchange=$conf/exchange
root=/var/lib/nairobi-mysql
data=$root/data
marker=$root/nairobi-mysql.volume
run=/run/nairobi-mysql
mounted=noatime,nosuid,nodev,noexec
self=/usr/local/lib/nairobi-mysql/member
say() {
printf 'nairobi-mysql: %s\n' "$*"
printf 'nairobi-mysql: %s\n' "$*" 2>/dev/null >/dev/console || :
}
fail() {
say "failed: $*"
sleep 10
exit 1
}
need() {
command -v "$1" >/dev/null || dnf -y -q install "$2" >/dev/null 2>&1 ||
{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install "${3:-$2}"; } >/dev/null 2>&1 ||
fail "the image has no $1, and the package ${3:-$2} cannot be installed"
}
machine() {
cat /var/lib/cloud/data/instance-id
}
put() {
local new=$tls/.new.$$
cat >"$new"
chmod "$2" "$new"
chown "$3" "$new"
mv -fT "$new" "$1"
}
setup() {
say start
install -d "$conf" "$tls" "$root" "${self%/*}"
install -m 0700 "$0" "$self"
machine | put "$conf/instance" 0644 root:root
units
local unit
for unit in mysql mysqld mariadb; do
systemctl disable --now "$unit" >/dev/null 2>&1 || :
systemctl mask --now "$unit" >/dev/null 2>&1 || :
done
systemctl daemon-reload
systemctl enable nairobi-mysqld.service nairobi-mysql-cert.path nairobi-mysql-growfs.timer
sync -f "$conf"
systemctl restart --no-block nairobi-mysql-volume.service nairobi-mysqld.service nairobi-mysql-cert.path nairobi-mysql-growfs.timer
}
units() {
local dir=/etc/systemd/system
cat >$dir/nairobi-mysql-volume.service <<'END'
[Unit]
Description=Data volume of the MySQL member
[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=infinity
ExecStart=/usr/local/lib/nairobi-mysql/member volume
END
cat >$dir/nairobi-mysqld.service <<'END'
[Unit]
Description=MySQL member
Requires=nairobi-mysql-volume.service
After=network.target nairobi-mysql-volume.service var-lib-nairobi\x2dmysql.mount
StartLimitIntervalSec=0
[Service]
Type=notify
User=mysql
Group=mysql
RuntimeDirectory=mysqld
Environment=MYSQLD_PARENT_PID=1
ExecStartPre=+/usr/local/lib/nairobi-mysql/member prepare
ExecStart=/bin/bash /run/nairobi-mysql/serve
ExecStartPost=+/usr/local/lib/nairobi-mysql/member started
Restart=always
RestartSec=100ms
KillSignal=SIGKILL
TimeoutSec=infinity
LimitNOFILE=65536
OOMScoreAdjust=-600
MemoryMax=90%
[Install]
WantedBy=multi-user.target
END
cat >$dir/nairobi-mysql-cert.path <<'END'
[Unit]
Description=Certificates for the MySQL member
[Path]
PathChanged=/etc/nairobi-mysql/exchange
[Install]
WantedBy=multi-user.target
END
cat >$dir/nairobi-mysql-cert.service <<'END'
[Unit]
Description=Install a certificate for the MySQL member
StartLimitIntervalSec=0
[Service]
Type=oneshot
ExecStart=/usr/local/lib/nairobi-mysql/member certificate
END
cat >$dir/nairobi-mysql-growfs.timer <<'END'
[Unit]
Description=Watch the MySQL member's file system
[Timer]
OnBootSec=10s
OnUnitInactiveSec=10s
AccuracySec=1s
[Install]
WantedBy=timers.target
END
cat >$dir/nairobi-mysql-growfs.service <<'END'
[Unit]
Description=Watch the MySQL member's file system
StartLimitIntervalSec=0
[Service]
Type=oneshot
LogLevelMax=notice
ExecStart=/usr/local/lib/nairobi-mysql/member growfs
END
}
device() {
local file path serial
for file in /sys/block/nvme*/device/serial; do
path=${file%/device/serial}
path=/dev/${path##*/}
if read -r serial 2>/dev/null <"$file" && [ "$serial" = "${volume/-/}" ] && [ -b "$path" ]; then
echo "$path"
return
fi
done
[ "$(cat /sys/hypervisor/type 2>/dev/null)" = xen ] && [ -b /dev/xvdf ] && echo /dev/xvdf
}
blank() {
local size code=0
blkid -p "$1" >/dev/null 2>&1 || code=$?
size=$(blockdev --getsize64 "$1") || return 1
[ "$code" = 2 ] && [ "$size" -ge 2097152 ] || return 1
cmp -s -n 1048576 "$1" /dev/zero && tail -c 1048576 "$1" | cmp -s -n 1048576 - /dev/zero
}
mount_volume() {
local dev formatting=$conf/formatting tries=0
say volume
[ "$(machine)" = "$(cat "$conf/instance")" ] || fail 'this root disk was set up for another instance'
mkdir -p "$run"
until (need mkfs.xfs xfsprogs); do :; done
until mountpoint -q "$root"; do
tries=$((tries + 1))
if ! dev=$(device); then
[ $((tries % 300)) != 0 ] || say "failed: volume $volume is not attached yet; no disk of the instance has its serial"
sleep 0.2
continue
fi
if blank "$dev"; then
: >"$formatting"
sync -f "$formatting"
fi
if [ -e "$formatting" ] && ! mount -o "$mounted" "$dev" "$root" 2>/dev/null; then
mkfs.xfs -q -f -L mysqldata "$dev" || :
fi
mountpoint -q "$root" || mount -o "$mounted" "$dev" "$root" || {
say "failed: $dev has something on it that cannot be mounted; it is not formatted, look at volume $volume"
sleep 10
}
done
rm -f "$formatting"
grow
}
grow() {
local dev size
mountpoint -q "$root" || return 0
dev=$(findmnt -no SOURCE "$root")
size=$(blockdev --getsize64 "$dev")
[ "$size" != "$(cat "$run/size" 2>/dev/null)" ] || return 0
if xfs_growfs -d "$root" >/dev/null; then echo "$size" >"$run/size"; fi
}
report() {
local block blocks free
mountpoint -q "$root" && [ -d "$exchange/machine" ] || return 0
read -r block blocks free < <(stat -f -c '%S %b %a' "$root")
echo "$((block * blocks)) $((block * free)) $(date +%s)" | put "$exchange/machine/disk" 0644 root:root
}
rotate() {
local log
[ -d "$exchange/logs" ] || return 0
for log in "$exchange"/logs/{general,slow}.log; do
if [ "$log.1" -nt "$log" ] && systemctl -q is-active nairobi-mysqld; then
systemctl kill -s USR1 --kill-who=main nairobi-mysqld
fi
if [ -e "$log" ]; then
[ "$(stat -c %s "$log")" -ge 16777216 ] || continue
mv -fT "$log" "$log.1"
fi
put "$log" 0664 root:mysql </dev/null
done
}
find_mysqld() {
local text
for mysqld in "/opt/mysql-$version/bin/mysqld" /usr/sbin/mysqld /usr/bin/mysqld /usr/libexec/mysqld; do
if [ -x "$mysqld" ]; then
text=$("$mysqld" --version 2>&1) || :
case $text in *" Ver $version"[\ -]*) return ;; esac
fi
done
return 1
}
get() {
local code error=0
code=$(curl -fsSL --path-as-is --retry 5 --connect-timeout 10 --speed-limit 1024 --speed-time 60 -w '%{http_code}' -o "$2" "$1" 2>/dev/null) || error=$?
[ "$error" != 0 ] || return 0
why="$1: HTTP $code"
[ "$error" = 22 ] || why="$1: curl's error $error"
return 1
}
verifier() {
local program
for program in gpgv gpg sqv; do
if command -v "$program" >/dev/null; then
echo "$program"
return
fi
done
return 1
}
status() {
local home=$run/gnupg signer key
mkdir -p "$home"
chmod 0700 "$home"
base64 -d <<<"$keys" >"$home/ring"
case $(verifier) in
gpgv) gpgv --homedir "$home" --keyring "$home/ring" --status-fd 1 "$1.asc" "$1" ;;
gpg) gpg --homedir "$home" --no-options --no-default-keyring --keyring "$home/ring" --trust-model always --status-fd 1 --verify "$1.asc" "$1" ;;
sqv)
if signer=$(sqv --keyring "$home/ring" "$1.asc" "$1" 2>"$home/error"); then
for key in $expiries; do
[ "${key%=*}" != "$signer" ] || [ "${key#*=}" -gt "$(date +%s)" ] || { echo "[GNUPG:] EXPKEYSIG $signer"; return; }
done
echo "[GNUPG:] GOODSIG $signer"
else
sed -n 's/.*manipulated.*/[GNUPG:] BADSIG/p; s/.*issing key \([0-9A-F]*\).*/[GNUPG:] NO_PUBKEY \1/p' "$home/error"
fi
;;
esac 2>/dev/null
}
trusted() {
local lines line
if [ "$sha256" ]; then
why="$2: the checksum is not that of spec.aws.download"
echo "$sha256  $1" | sha256sum -c --status
return
fi
lines=$(status "$1" | sed -En 's/^\[GNUPG:\] (GOODSIG|BADSIG|NO_PUBKEY|EXPKEYSIG|REVKEYSIG|EXPSIG) ?([0-9A-F]*).*/\1 \2/p') || :
! grep -q '^GOODSIG' <<<"$lines" || return 0
line=${lines%%$'\n'*}
case $line in
BADSIG*) why="$2: does not match its signature" ;;
NO_PUBKEY*) why="$2: signed by the unknown key ${line: -16}" ;;
EXPKEYSIG*) why="$2: the key ${line: -16} that signed it has expired" ;;
*) why="$2.asc: no valid signature${line:+ ($line)}" ;;
esac
return 1
}
fetch() {
local from why wrong='' arch all
arch=$(uname -m)
[ "$arch" != x86_64 ] || arch=x86_64-minimal
read -ra all <<<"$places"
for from in "${all[@]}"; do
from=${from/\{arch\}/$arch}
if { [ "$sha256" ] || get "$from.asc" "$1.asc"; } && get "$from" "$1" && trusted "$1" "$from"; then
return 0
fi
wrong+="${wrong:+; }$why"
done
fail "cannot install MySQL $version: $wrong"
}
download() {
local to=/opt/mysql-$version want=${sha256:-signed}
say download
if [ "$(cat "$to/verified" 2>/dev/null)" != "$want" ]; then
need curl curl
need xz xz xz-utils
[ "$sha256" ] || verifier >/dev/null || need gpgv gnupg2 gpgv
rm -rf "$to.new"
mkdir -p "$to.new"
fetch "$to.new/tarball"
tar -xf "$to.new/tarball" -C "$to.new" --strip-components=1 --no-same-owner || fail "cannot unpack the tarball of MySQL $version"
rm -rf "$to" "$to.new/tarball" "$to.new/tarball.asc"
echo "$want" >"$to.new/verified"
sync -f "$to.new"
mv -T "$to.new" "$to"
fi
find_mysqld || libraries || :
find_mysqld || fail "the tarball does not hold a mysqld $version that runs here; does the image have libaio and numactl?"
}
libraries() {
dnf -y -q install libaio numactl-libs && return
apt-get -qq update
apt-get -qq -y install libnuma1
apt-get -qq -y install libaio1 && return
apt-get -qq -y install libaio1t64 && ln -sf libaio.so.1t64 "/usr/lib/$(uname -m)-linux-gnu/libaio.so.1"
} >/dev/null 2>&1
configure() {
say configure
id mysql >/dev/null 2>&1 || useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin mysql
find_mysqld || download
install -d -o root -g mysql -m 1770 "$exchange"
install -d -o mysql -g mysql -m 0750 "$root/tmp"
put "$tls/ca.pem" 0644 root:root <<<"$ca"
put "$conf/my.cnf" 0644 root:root <<'END'
[mysqld]
innodb_dedicated_server=ON
local_infile=OFF
binlog_expire_logs_seconds=604800
!include /etc/nairobi-mysql/redo.cnf
!include /etc/nairobi-mysql/launch.cnf
[mysqld]
user=mysql
datadir=/var/lib/nairobi-mysql/data
tmpdir=/var/lib/nairobi-mysql/tmp
socket=/run/mysqld/mysqld.sock
pid_file=/run/mysqld/mysqld.pid
init_file=/etc/nairobi-mysql/init.sql
secure_file_priv=/etc/nairobi-mysql/exchange
port=3306
bind_address=*
mysqlx=OFF
skip_name_resolve=ON
general_log_file=/etc/nairobi-mysql/exchange/logs/general.log
slow_query_log_file=/etc/nairobi-mysql/exchange/logs/slow.log
performance_schema=ON
plugin_load_add=mysql_clone.so
plugin_load_add=semisync_source.so
plugin_load_add=semisync_replica.so
ssl_ca=/etc/nairobi-mysql/tls/ca.pem
ssl_cert=/etc/nairobi-mysql/tls/current.pem
ssl_key=/etc/nairobi-mysql/tls/member.key
loose_clone_ssl_ca=/etc/nairobi-mysql/tls/ca.pem
loose_clone_ssl_cert=/etc/nairobi-mysql/tls/current.pem
loose_clone_ssl_key=/etc/nairobi-mysql/tls/member.key
tls_version=TLSv1.2,TLSv1.3
require_secure_transport=ON
auto_generate_certs=OFF
caching_sha2_password_auto_generate_rsa_keys=OFF
sha256_password_auto_generate_rsa_keys=OFF
sync_binlog=1
binlog_error_action=ABORT_SERVER
innodb_flush_log_at_trx_commit=1
innodb_doublewrite=ON
sync_relay_log=1
relay_log_recovery=OFF
disabled_storage_engines=MyISAM,ARCHIVE,BLACKHOLE,CSV,FEDERATED,MERGE,MRG_MYISAM,EXAMPLE,MEMORY
super_read_only=ON
read_only=ON
skip_replica_start=ON
gtid_mode=ON
enforce_gtid_consistency=ON
log_bin=binlog
relay_log=relay
log_replica_updates=ON
replica_preserve_commit_order=ON
replica_net_timeout=4
loose_rpl_semi_sync_source_wait_point=AFTER_SYNC
loose_rpl_semi_sync_source_wait_no_replica=ON
loose_rpl_semi_sync_source_timeout=4294967295
server_id=50
report_host=orders-1
END
put "$conf/init.sql" 0644 root:root <<'END'
SET sql_log_bin=0;
CREATE USER IF NOT EXISTS 'nairobi_operator'@'%' IDENTIFIED WITH caching_sha2_password AS '' REQUIRE ISSUER '/O=7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f/CN=orders-ca' AND SUBJECT '/O=7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f/OU=operator/CN=nairobi-mysql-operator';
ALTER USER 'nairobi_operator'@'%' IDENTIFIED WITH caching_sha2_password AS '' REQUIRE ISSUER '/O=7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f/CN=orders-ca' AND SUBJECT '/O=7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f/OU=operator/CN=nairobi-mysql-operator' WITH MAX_USER_CONNECTIONS 1000 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK;
GRANT ALL ON *.* TO 'nairobi_operator'@'%' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'nairobi_replication'@'%' IDENTIFIED WITH caching_sha2_password AS '' REQUIRE ISSUER '/O=7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f/CN=orders-ca';
ALTER USER 'nairobi_replication'@'%' IDENTIFIED WITH caching_sha2_password AS '' REQUIRE ISSUER '/O=7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f/CN=orders-ca' WITH MAX_USER_CONNECTIONS 1000 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK;
GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO 'nairobi_replication'@'%';
ALTER USER IF EXISTS root@localhost ACCOUNT LOCK;
END
local rules=/etc/apparmor.d/local/usr.sbin.mysqld
if [ -f /etc/apparmor.d/usr.sbin.mysqld ] && ! grep -qs nairobi "$rules"; then
mkdir -p "${rules%/*}"
printf '%s\n' "$conf/** r," "$exchange/** rw," "$root/ r," "$root/** rwk," >>"$rules"
apparmor_parser -r /etc/apparmor.d/usr.sbin.mysqld >/dev/null 2>&1 || :
fi
}
seal() {
local i n inner='' outer=''
for ((i = 0; i < 64; i++)); do
printf -v n %d "'${token:i:1}"
printf -v inner '%s\\x%02x' "$inner" $((n ^ 0x36))
printf -v outer '%s\\x%02x' "$outer" $((n ^ 0x5c))
done
inner=$({ printf %b "$inner"; cat; } | sha256sum | cut -c1-64 | sed 's/../\\x&/g')
{ printf %b "$outer"; printf %b "$inner"; } | sha256sum | cut -c1-64
}
keys() {
local id csr
id=$(machine)
[ "$id" != "$(cat "$exchange/instance-id" 2>/dev/null)" ] || return 0
say keys
need openssl openssl
rm -rf "${tls:?}"/*.pem "$tls/member.key" "${exchange:?}"/*
mkdir "$exchange/machine"
put "$tls/ca.pem" 0644 root:root <<<"$ca"
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 2>/dev/null | put "$tls/member.key" 0640 root:mysql
openssl req -x509 -new -key "$tls/member.key" -subj "/CN=$member" -days 3650 | put "$tls/bootstrap.pem" 0644 root:root
ln -sfT bootstrap.pem "$tls/current.pem"
openssl req -new -key "$tls/member.key" -subj "/CN=$member" | put "$exchange/member.csr" 0644 root:root
csr=$exchange/member.csr
{ cat "$csr"; printf %s "$id"; } | seal | tr -d '\n' | put "$exchange/member.seal" 0644 root:root
sync -f "$conf"
printf %s "$id" | put "$exchange/instance-id" 0644 root:root
}
certificate() {
local file name try candidate=$tls/.candidate.$$
for file in "$exchange"/cert-*.pem; do
name=issued-${file##*/cert-}
if [ ! -f "$file" ] || [ -L "$file" ] || [ -s "$tls/$name" ]; then continue; fi
for try in 1 2 3 4 5 6 7 8 9 10; do
put "$candidate" 0644 root:root <"$file"
if openssl verify -CAfile "$tls/ca.pem" -no-CApath -no-CAstore -purpose sslserver "$candidate" >/dev/null 2>&1 &&
[ "$(openssl x509 -in "$candidate" -noout -pubkey)" = "$(openssl pkey -in "$tls/member.key" -pubout)" ]; then
mv -fT "$candidate" "$tls/$name"
sync -f "$tls/$name"
ln -sfT "$name" "$candidate"
mv -fT "$candidate" "$tls/current.pem"
break
fi
[ "$try" != 10 ] || echo "$file is not a certificate for this member" >&2
sleep 0.1
done
rm -f "$candidate"
done
}
zones() {
local program=${mysqld%/*}/mysql_tzinfo_to_sql from=/usr/share/zoneinfo
[ -x "$program" ] || program=$(command -v mysql_tzinfo_to_sql) || { say 'no time zones: there is no mysql_tzinfo_to_sql' >&2; return 0; }
[ -d "$from" ] || dnf -y -q install tzdata >/dev/null 2>&1 ||
{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install tzdata; } >/dev/null 2>&1 || :
[ -d "$from" ] || { say "no time zones: the image has no $from" >&2; return 0; }
echo 'USE mysql;'
"$program" "$from" 2>/dev/null
}
initialise() {
say initialise
rm -rf "$data.new"
install -d -o mysql -g mysql -m 0750 "$data.new"
: >"$conf/launch.cnf"
: >"$conf/redo.cnf"
{ cat "$conf/init.sql"; zones; } | put "$conf/first.sql" 0644 root:root
"$mysqld" --defaults-file="$conf/my.cnf" --datadir="$data.new" --init-file="$conf/first.sql" --innodb-dedicated-server=OFF --initialize-insecure --user=mysql ||
fail "initialise: $(errors)"
sync -f "$data.new"
mv -T "$data.new" "$data"
mark
}
ours() {
[ -f "$marker" ] && [ ! -L "$marker" ] && [ "$(cat "$marker")" = "$identity" ]
}
mark() {
! ours || return 0
echo "$identity" >"$marker.new"
sync -f "$marker.new"
mv -fT "$marker.new" "$marker"
sync -f "$marker"
}
errors() {
{
lately | grep -m 1 -F '[ERROR]' ||
journalctl -q _SYSTEMD_UNIT=nairobi-mysqld.service -o cat -n 50 2>/dev/null | grep -v '^nairobi-mysql: ' | tail -n 1
} | cut -c1-300
}
lately() {
journalctl -q -u nairobi-mysqld -o cat -n 100 2>/dev/null | tac | sed '/\] MySQL Server.* - start\./q' | tac || :
}
ended() {
local log
log=$(lately)
{ sed -n '/\[Repl\]/d;/\[ERROR\]/{p;q}' <<<"$log" | grep . || grep -m 1 -F 'mysqld got signal' <<<"$log" || :; } | cut -c1-300
}
booted() {
[ -s "$run/boot" ] || cat /proc/sys/kernel/random/uuid >"$run/boot"
cat "$run/boot"
[ -s "$exchange/machine/error" ] || lately | grep -m 1 -o 'Shutdown complete' || :
}
sift() {
local odd
odd=$(find "$root" -xdev ! -type f ! -type d -print -quit | LC_ALL=C tr -dc '[:print:]')
[ -z "$odd" ] || fail "volume $volume holds $odd, a link, device or pipe; it is not opened"
for odd in "$data"/*.index; do
[ ! -f "$odd" ] || ! grep -aEqv '^(\./)?[^/]*$' "$odd" || fail "volume $volume: $odd leads out of it; it is not opened"
done
install -d -o root -g root -m 0755 "$root"
}
adopt() {
rm -rf "$data"/*.cnf "$data"/mysqld-auto.cnf* "$data"/*.pem "$data"/mysqld.my
{ cat "$conf/init.sql"; echo 'RESET REPLICA ALL;'; zones; } | put "$conf/adopt.sql" 0644 root:root
extra+=(--init-file="$conf/adopt.sql")
: >"$root/adopted"
sync -f "$root/adopted"
}
hold() {
[ ! -e "$root/adopted" ] || grep -Eqis '^loose_event_scheduler *= *"?(off|0|disabled)' "$conf/launch.cnf" || extra+=(--event-scheduler=OFF)
}
cleanse() {
local names="s/.*Different lower_case_table_names settings for server ('\(.\)') and data dictionary ('\(.\)').*/the data was made with lower_case_table_names=\2, the cluster with \1: make the cluster with spec.mysqld.lower_case_table_names: \2/"
say adopt
{
echo 'SET sql_log_bin=0;'
printf 'DELETE FROM mysql.%s;\n' plugin component func
printf "DELETE FROM mysql.%s WHERE LEFT(%s,8)='nairobi_';\n" user user db user tables_priv user columns_priv user \
procs_priv user global_grants user password_history user proxies_priv user proxies_priv proxied_user \
role_edges from_user role_edges to_user default_roles user default_roles default_role_user
echo 'SHUTDOWN;'
} | put "$conf/cleanse.sql" 0644 root:root
env -u NOTIFY_SOCKET "$mysqld" --defaults-file="$conf/my.cnf" "${extra[@]}" --init-file="$conf/cleanse.sql" \
--skip-grant-tables --upgrade=MINIMAL --super-read-only=OFF --read-only=OFF || fail "adopt: $(errors | sed "$names")"
}
redo() {
local most size
most=$(($(nproc) / 2))
most=$((most < 16 ? most * 1024 : 16384))
size=$(($(stat -f -c '%b * %S' "$root") / 4194304))
if [ "$size" -lt "$most" ] && ! grep -qs innodb_log_file_size "$conf/launch.cnf" "$data/mysqld-auto.cnf"; then
printf '[mysqld]\ninnodb_redo_log_capacity=%sM\n' "$((size > 8 ? size : 8))"
fi
}
prepare() {
local extra=() failures
mountpoint -q "$root" || fail "volume $volume is not mounted"
mkdir -p "$run"
failures=$(cat "$run/failures" 2>/dev/null || echo 0)
ours || sift
configure
keys
install -d -o root -g mysql -m 0750 "$exchange/logs"
rotate
if [ ! -d "$data" ]; then
! ours || fail "volume $volume is this member's, but its data directory is gone"
initialise
fi
[ "$(stat -c %U "$data")" = mysql ] || chown -R mysql:mysql "$data"
ours || adopt
[ ! -s "$data/mysqld-auto.cnf" ] || : >"$conf/launched"
put "$conf/launch.cnf" 0644 root:root <<'END'
[mysqld]
loose_max_connections="500"
loose_sql_mode="ANSI_QUOTES,STRICT_ALL_TABLES"
END
[ ! -e "$conf/launched" ] || : >"$conf/launch.cnf"
redo | put "$conf/redo.cnf" 0644 root:root
hold
ended | put "$exchange/machine/error" 0644 root:root
booted | put "$exchange/machine/boot" 0644 root:root
if [ "$failures" -gt 0 ]; then
say "failed: mysqld did not start: $(errors)"
sleep $((failures < 10 ? failures : 10))
fi
if grep -Eqs '"(super_read_only|read_only|skip_replica_start|server_id|rpl_semi_sync_source_enabled)"' "$data/mysqld-auto.cnf"; then
extra+=(--persisted-globals-load=OFF)
fi
if [ $((failures % 3)) = 2 ]; then
if grep -qs = "$conf/launch.cnf"; then
say "failed: starting without the settings of the launch"
: >"$conf/launched"
: >"$conf/launch.cnf"
hold
else
say "failed: starting once without the persisted settings"
extra+=(--persisted-globals-load=OFF --innodb-dedicated-server=OFF)
fi
fi
echo $((failures + 1)) >"$run/failures"
ours || cleanse
printf '%q ' exec "$mysqld" --defaults-file="$conf/my.cnf" "${extra[@]}" >"$run/serve"
echo >>"$run/serve"
say starting
}
started() {
mark
rm -f "$run/failures"
report || :
say started
}
case ${1:-setup} in
setup) setup ;;
volume) mount_volume ;;
prepare) prepare ;;
started) started ;;
certificate) certificate ;;
growfs) report || : && { rotate || :; } && grow && certificate ;;
esac
