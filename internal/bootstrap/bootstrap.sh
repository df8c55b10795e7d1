#!/bin/bash
# What a fresh instance runs once as its EC2 user data, and what its systemd units run at every boot.
#
# cloud-init runs user data once per instance. So this script only installs itself and its units, in a few milliseconds,
# and all that takes time or may fail is done by the units, each step so that it can be cut off anywhere and done again.
#
# Lines that begin with #@ are filled in by the operator. Comments and indentation are taken out before the script is
# sent, because EC2 takes 16 KiB of user data.
set -euo pipefail
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

#@values

# Addressed everywhere by these names; the same as in constants of the Go package.
conf=/etc/nairobi-mysql
tls=$conf/tls
exchange=$conf/exchange
root=/var/lib/nairobi-mysql
data=$root/data
marker=$root/nairobi-mysql.volume
run=/run/nairobi-mysql
# Nothing on the data volume is ever executed, whoever filled it, and no file there is a device.
mounted=noatime,nosuid,nodev,noexec
self=/usr/local/lib/nairobi-mysql/member

# say prints a stage where a person, or the operator through GetConsoleOutput, can see it without logging in.
say() {
	printf 'nairobi-mysql: %s\n' "$*"
	printf 'nairobi-mysql: %s\n' "$*" 2>/dev/null >/dev/console || :
}

# fail ends a step. systemd starts the unit again at once, hence the pause.
fail() {
	say "failed: $*"
	sleep 10
	exit 1
}

# need installs a package where the image lacks its command; apt has some by another name than dnf. Images without a package
# source must have it.
need() {
	command -v "$1" >/dev/null || dnf -y -q install "$2" >/dev/null 2>&1 ||
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install "${3:-$2}"; } >/dev/null 2>&1 ||
		fail "the image has no $1, and the package ${3:-$2} cannot be installed"
}

# machine prints the instance's id as EC2 knows it. cloud-init asked the metadata service before anything of ours ran.
machine() {
	cat /var/lib/cloud/data/instance-id
}

# put writes its input to a file in one step, so that nobody ever reads half of it. A link in its place is replaced, not
# followed: mysqld can make files in the exchange folder.
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
	# A server that the image starts by itself would be one that nobody looks after. One at a time: systemctl does nothing at
	# all when one of several units does not exist.
	local unit
	for unit in mysql mysqld mariadb; do
		systemctl disable --now "$unit" >/dev/null 2>&1 || :
		systemctl mask --now "$unit" >/dev/null 2>&1 || :
	done
	systemctl daemon-reload
	systemctl enable nairobi-mysqld.service nairobi-mysql-cert.path nairobi-mysql-growfs.timer
	# The fence is a power cut, and cloud-init runs this once: what is not on the disk then is never made again.
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
	# KillSignal=SIGKILL: a graceful shutdown answers "OK" to clients whose commits no replica has acknowledged, and a
	# failover would then lose what they were told is safe. Killed, they get a lost connection, and InnoDB recovers at the
	# next start. It is so for every member and not for the primary alone, because asking who is primary could hang.
	# The limit on starts is off, so that systemd never gives the server up; after starts that failed, prepare waits longer
	# each time (RestartSteps= would do that, but Amazon Linux 2023 has a systemd that does not know it yet).
	# However the server ends, it is started again: RESTART and CLONE expect it (MYSQLD_PARENT_PID tells the server so), and a person's
	# SHUTDOWN would leave a member down that EC2 calls well.
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
MemoryMax=#@memory
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
	# LogLevelMax: the journal need not hold every ten seconds that nothing happened.
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

# device prints the path of the data volume once it is attached. On Nitro the disk proves it by its serial, which is the volume's
# id without the dash; udev's links may be late, stale, or lead to whatever a person attached at /dev/sdf. Disks of Xen have no
# serial: there the kernel names them by the place where they are attached, and this place is the operator's.
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

# blank tells whether a device was never written: no signature that blkid knows, and only zeros, all readable, where
# signatures are (the first and the last MiB). A device that cannot be read is not blank.
blank() {
	local size code=0
	blkid -p "$1" >/dev/null 2>&1 || code=$?
	size=$(blockdev --getsize64 "$1") || return 1
	[ "$code" = 2 ] && [ "$size" -ge 2097152 ] || return 1
	cmp -s -n 1048576 "$1" /dev/zero && tail -c 1048576 "$1" | cmp -s -n 1048576 - /dev/zero
}

# The volume is attached only once the instance runs, and that may take as long as EC2 likes.
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
		# A mkfs that was cut off leaves a device that is neither blank nor a file system. The note on the root disk,
		# made while it was blank and removed once it was mounted, allows this instance alone to begin again.
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

# grow lets the file system fill its volume. It is cheap when there is nothing to do.
grow() {
	local dev size
	mountpoint -q "$root" || return 0
	dev=$(findmnt -no SOURCE "$root")
	size=$(blockdev --getsize64 "$dev")
	[ "$size" != "$(cat "$run/size" 2>/dev/null)" ] || return 0
	if xfs_growfs -d "$root" >/dev/null; then echo "$size" >"$run/size"; fi
}

# report tells the operator, who reads it over SQL, how full the file system is: size and free bytes, and when that was.
# The folder is below secure_file_priv and not in it, because the path unit for certificates watches that one.
report() {
	local block blocks free
	mountpoint -q "$root" && [ -d "$exchange/machine" ] || return 0
	read -r block blocks free < <(stat -f -c '%S %b %a' "$root")
	echo "$((block * blocks)) $((block * free)) $(date +%s)" | put "$exchange/machine/disk" 0644 root:root
}

# rotate makes the files of the general and the slow query log and keeps them short: two of each, on the root disk. They are root's, in
# root's folder, because nothing that mysqld could put there may lead root elsewhere, and readable by all, because LOAD_FILE
# demands that. A rotated file that is newer than the log says that mysqld still writes to it: SIGUSR1 makes it open its
# logs again.
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

# find_mysqld sets mysqld to a server of exactly the wanted version.
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

# get downloads an address into a file, or says in why what went wrong.
get() {
	local code error=0
	code=$(curl -fsSL --path-as-is --retry 5 --connect-timeout 10 --speed-limit 1024 --speed-time 60 -w '%{http_code}' -o "$2" "$1" 2>/dev/null) || error=$?
	[ "$error" != 0 ] || return 0
	why="$1: HTTP $code"
	[ "$error" = 22 ] || why="$1: curl's error $error"
	return 1
}

# verifier prints the first program of the image that verifies OpenPGP signatures. Debian has sqv since apt uses it.
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

# status prints what GnuPG's status lines say of the signature beside a file. sqv has none, and accepts a signature from before its
# key expired.
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

# trusted says whether a file is the expected one: by its checksum if the spec has one, or else by the signature beside it. If it is
# not, why says what is wrong. One good signature is enough, because a release may be signed by the old and by the new key.
trusted() {
	local lines line
	if [ "$sha256" ]; then
		why="$2: the checksum is not that of spec.aws.download"
		echo "$sha256  $1" | sha256sum -c --status
		return
	fi
	# From the beginning of each line: the words of a signature's maker are further behind.
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

# fetch stores the tarball in a file, from the first place that has it as it should be. Of MySQL's builds for x86_64 the minimal one
# has all that a member needs; there is none for aarch64.
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
	# What was unpacked and does not run yet is not fetched again: then it is libraries that are missing.
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

# libraries installs the two that MySQL's tarball does not bring. Since its time_t has 64 bits Debian calls the first, which has
# no time in it, by another name.
libraries() {
	dnf -y -q install libaio numactl-libs && return
	apt-get -qq update
	apt-get -qq -y install libnuma1
	apt-get -qq -y install libaio1 && return
	apt-get -qq -y install libaio1t64 && ln -sf libaio.so.1t64 "/usr/lib/$(uname -m)-linux-gnu/libaio.so.1"
} >/dev/null 2>&1

# configure writes what mysqld reads. It is written at every start: nobody's edit outlives a boot.
configure() {
	say configure
	id mysql >/dev/null 2>&1 || useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin mysql
	find_mysqld || download
	# In the exchange folder the server may make files, and may not put anything in the place of root's.
	install -d -o root -g mysql -m 1770 "$exchange"
	install -d -o mysql -g mysql -m 0750 "$root/tmp"
	put "$tls/ca.pem" 0644 root:root <<<"$ca"
	put "$conf/my.cnf" 0644 root:root <<'END'
#@config
END
	put "$conf/init.sql" 0644 root:root <<'END'
#@init
END
	# Where AppArmor confines the distribution's server, it has to be told of our paths. SELinux is permissive on
	# Amazon Linux 2023 and has no domain for a server under /opt.
	local rules=/etc/apparmor.d/local/usr.sbin.mysqld
	if [ -f /etc/apparmor.d/usr.sbin.mysqld ] && ! grep -qs nairobi "$rules"; then
		mkdir -p "${rules%/*}"
		printf '%s\n' "$conf/** r," "$exchange/** rw," "$root/ r," "$root/** rwk," >>"$rules"
		apparmor_parser -r /etc/apparmor.d/usr.sbin.mysqld >/dev/null 2>&1 || :
	fi
}

# seal prints HMAC-SHA256 of its input. It is done here because openssl takes the key as an argument, which every
# process of the machine can read. The token has 64 characters, SHA-256's block size, so it needs no padding.
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

# keys makes the member's key, which never leaves this root disk, and the sealed request for a certificate. Until the
# operator has answered it, the server shows a certificate that the key signed itself.
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
	# Last, because it says that all the others are there, also after a power cut.
	sync -f "$conf"
	printf %s "$id" | put "$exchange/instance-id" 0644 root:root
}

# certificate installs what the operator wrote into the exchange folder over SQL, if it is for our key and from our CA.
# The default trust store is shut out: any public CA would do otherwise.
certificate() {
	local file name try candidate=$tls/.candidate.$$
	for file in "$exchange"/cert-*.pem; do
		name=issued-${file##*/cert-}
		if [ ! -f "$file" ] || [ -L "$file" ] || [ -s "$tls/$name" ]; then continue; fi
		# The file may be seen before it is complete.
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

# zones prints statements that fill MySQL's tables of time zones, by which a session may name one, from the system's database of
# them. Without it, or without MySQL's program for it, they stay as they are, and a zone is known by its offset alone.
zones() {
	local program=${mysqld%/*}/mysql_tzinfo_to_sql from=/usr/share/zoneinfo
	[ -x "$program" ] || program=$(command -v mysql_tzinfo_to_sql) || { say 'no time zones: there is no mysql_tzinfo_to_sql' >&2; return 0; }
	[ -d "$from" ] || dnf -y -q install tzdata >/dev/null 2>&1 ||
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install tzdata; } >/dev/null 2>&1 || :
	[ -d "$from" ] || { say "no time zones: the image has no $from" >&2; return 0; }
	echo 'USE mysql;'
	"$program" "$from" 2>/dev/null
}

# initialise makes the data directory beside its place, so that one that was cut off is never taken for a whole one.
# The user's settings are left out: a wrong one shall show when the server starts, where it can be undone.
initialise() {
	say initialise
	rm -rf "$data.new"
	install -d -o mysql -g mysql -m 0750 "$data.new"
	: >"$conf/launch.cnf"
	: >"$conf/redo.cnf"
	# Nothing of it is written to the binary log: the other members get it with the data.
	{ cat "$conf/init.sql"; zones; } | put "$conf/first.sql" 0644 root:root
	"$mysqld" --defaults-file="$conf/my.cnf" --datadir="$data.new" --init-file="$conf/first.sql" --innodb-dedicated-server=OFF --initialize-insecure --user=mysql ||
		fail "initialise: $(errors)"
	sync -f "$data.new"
	mv -T "$data.new" "$data"
	mark
}

# ours says whether the volume carries this member's mark.
ours() {
	[ -f "$marker" ] && [ ! -L "$marker" ] && [ "$(cat "$marker")" = "$identity" ]
}

# mark says on the volume whose it is. Whoever reads half of it would take the volume for another's and drop its relay
# log, which may hold what nobody else has: so it is written at one go, and only when it is not there yet.
mark() {
	! ours || return 0
	echo "$identity" >"$marker.new"
	sync -f "$marker.new"
	mv -fT "$marker.new" "$marker"
	sync -f "$marker"
}

# errors prints the first error of those that ended mysqld: what follows it is its consequence. One that does not get as far
# as its log, such as a program without its libraries, ends with the last words of the unit's processes.
errors() {
	{
		lately | grep -m 1 -F '[ERROR]' ||
			journalctl -q _SYSTEMD_UNIT=nairobi-mysqld.service -o cat -n 50 2>/dev/null | grep -v '^nairobi-mysql: ' | tail -n 1
	} | cut -c1-300
}

# lately prints what the last run of mysqld logged.
lately() {
	journalctl -q -u nairobi-mysqld -o cat -n 100 2>/dev/null | tac | sed '/\] MySQL Server.* - start\./q' | tac || :
}

# ended prints the first error of the last run of mysqld, or the signal that ended it. Errors of replication end none.
ended() {
	local log
	log=$(lately)
	{ sed -n '/\[Repl\]/d;/\[ERROR\]/{p;q}' <<<"$log" | grep . || grep -m 1 -F 'mysqld got signal' <<<"$log" || :; } | cut -c1-300
}

# booted prints a name of this boot, and whether the last run of mysqld ended with a shutdown that no error led to.
booted() {
	[ -s "$run/boot" ] || cat /proc/sys/kernel/random/uuid >"$run/boot"
	cat "$run/boot"
	[ -s "$exchange/machine/error" ] || lately | grep -m 1 -o 'Shutdown complete' || :
}

# sift refuses a volume with files on it that no mysqld makes, and that would lead root or mysqld out of it: links, devices,
# pipes, and logs that are said to lie elsewhere. The volume's own folder becomes root's. Whatever else a file has, such as
# set-user-id bits, counts for nothing on a file system that is mounted like this one.
sift() {
	local odd
	odd=$(find "$root" -xdev ! -type f ! -type d -print -quit | LC_ALL=C tr -dc '[:print:]')
	[ -z "$odd" ] || fail "volume $volume holds $odd, a link, device or pipe; it is not opened"
	for odd in "$data"/*.index; do
		[ ! -f "$odd" ] || ! grep -aEqv '^(\./)?[^/]*$' "$odd" || fail "volume $volume: $odd leads out of it; it is not opened"
	done
	install -d -o root -g root -m 0755 "$root"
}

# adopt takes over a volume that was made from a snapshot or belonged to another member. It keeps the data and nothing
# of who wrote it: not the server's UUID, not the settings persisted for another machine, no keys and no manifest of
# components, and, once the server runs, not the source that it replicated from and not its time zones. The relay log goes with that: the volume
# stands for what was executed on it.
adopt() {
	rm -rf "$data"/*.cnf "$data"/mysqld-auto.cnf* "$data"/*.pem "$data"/mysqld.my
	{ cat "$conf/init.sql"; echo 'RESET REPLICA ALL;'; zones; } | put "$conf/adopt.sql" 0644 root:root
	extra+=(--init-file="$conf/adopt.sql")
	: >"$root/adopted"
	sync -f "$root/adopted"
}

# hold keeps the scheduled events of adopted data from running before the operator has made the data its own and the member
# writable, also on another instance that the volume moves to meanwhile. What the settings say against events stays said by
# them, and the operator lets none run.
hold() {
	[ ! -e "$root/adopted" ] || grep -Eqis '^loose_event_scheduler *= *"?(off|0|disabled)' "$conf/launch.cnf" || extra+=(--event-scheduler=OFF)
}

# cleanse takes out of an adopted volume, while nobody can log in and nothing of it runs, what would run inside the server
# from its start on: plug-ins, components and loadable functions; and the operator's accounts with all that hangs on them,
# such as second factors, limits, roles and proxies, so that the next start makes them from nothing. A server without grant
# tables loads none of that; what an upgrade does to the system tables is left to the real start. The tables themselves are written, because no statement drops accounts whose hosts are unknown.
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

# redo keeps the redo log to a quarter of the file system. mysqld works its size out from the processors alone: a GiB for two, at
# most 16 GiB. What a user sets counts before it, innodb_log_file_size too, which MySQL 8.4 still has.
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
	# Once the operator has persisted the user's settings over SQL, those count alone: a setting that is taken out of the
	# specification must not come back from here.
	[ ! -s "$data/mysqld-auto.cnf" ] || : >"$conf/launched"
	put "$conf/launch.cnf" 0644 root:root <<'END'
#@launch
END
	[ ! -e "$conf/launched" ] || : >"$conf/launch.cnf"
	redo | put "$conf/redo.cnf" 0644 root:root
	hold
	# The operator reads it over SQL when mysqld was restarted unexpectedly.
	ended | put "$exchange/machine/error" 0644 root:root
	booted | put "$exchange/machine/boot" 0644 root:root
	if [ "$failures" -gt 0 ]; then
		say "failed: mysqld did not start: $(errors)"
		sleep $((failures < 10 ? failures : 10))
	fi
	# Persisted values outrank my.cnf. One that makes a member writable, or somebody else, before the operator has looked
	# at it must not count; the operator takes it out once the server runs.
	if grep -Eqs '"(super_read_only|read_only|skip_replica_start|server_id|rpl_semi_sync_source_enabled)"' "$data/mysqld-auto.cnf"; then
		extra+=(--persisted-globals-load=OFF)
	fi
	# A setting that keeps the server from starting can be undone only while the server runs. Those of the launch are left to the
	# operator for good then: over SQL mysqld refuses what is wrong, and takes the rest.
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

# started runs when the server accepts connections.
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
