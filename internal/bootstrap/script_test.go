package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
)

const testInstanceID = "i-0123456789abcdef0"

// machine is a folder that stands for an instance's root. The script's functions run in it, under the real bash, with
// the real openssl; what needs root, devices or a server is replaced.
type machine struct {
	t         *testing.T
	dir       string
	authority *pki.Authority
	operator  []byte
	input     Input
}

// stubs stand for what a test cannot have. mysqld does what the real one does to the files that the script looks at.
const stubs = `
say() { echo "nairobi-mysql: $*"; }
fail() { say "failed: $*"; exit 1; }
sleep() { :; }
id() { :; }
chown() { :; }
mountpoint() { [ -z "${STUB_UNMOUNTED:-}" ]; }
journalctl() {
	if [ -n "${STUB_SPEECHLESS:-}" ]; then
		case "$*" in *_SYSTEMD_UNIT=*) echo 'mysqld: error while loading shared libraries' && echo 'nairobi-mysql: failed' ;; esac
		return
	fi
	echo 'T 0 [ERROR] [MY-1] [Server] of an older start'
	echo 'T 0 [System] [MY-015015] [Server] MySQL Server - start.'
	echo 'T 0 [ERROR] [MY-000067] [Server] unknown variable'
	echo 'T 0 [ERROR] [MY-010119] [Server] Aborting'
}
apparmor_parser() { :; }
blockdev() { stat -c %s "$2"; }
install() {
	local args=()
	while [ $# -gt 0 ]; do
		case $1 in -o | -g) shift ;; *) args+=("$1") ;; esac
		shift
	done
	command install "${args[@]}"
}
`

const stubMySQLD = `#!/bin/bash
case "$*" in
--version) echo "/opt/mysqld  Ver ${STUB_VERSION:-9.7.4} for Linux on x86_64 (MySQL Community Server - GPL)"; exit ;;
esac
for arg; do
	case $arg in
	--datadir=*) data=${arg#*=} ;;
	--initialize-insecure) initialize=1 ;;
	--skip-grant-tables) echo "$*" >>"${0%/opt/*}/cleansed"; exit "${STUB_UNREADABLE:-0}" ;;
	esac
done
[ -z "$initialize" ] || { [ -z "$STUB_BROKEN" ] || exit 1; echo "[auto]" >"$data/auto.cnf"; }
`

func newMachine(t *testing.T) *machine {
	t.Helper()
	authority, err := pki.NewAuthority(testUID, "orders", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	operator, _, err := authority.IssueOperator(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, dir: t.TempDir(), authority: authority, operator: operator, input: testInput()}
	m.input.CAPEM = authority.CertificatePEM()
	m.input.JoinToken = authority.JoinToken(m.input.Member, m.input.Incarnation)
	for _, dir := range []string{TLSDir, DataRoot, "/var/lib/cloud/data", "/run/nairobi-mysql", "/opt/mysql-9.7.4/bin"} {
		if err := os.MkdirAll(m.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.write("/var/lib/cloud/data/instance-id", testInstanceID+"\n")
	m.write("/opt/mysql-9.7.4/bin/mysqld", stubMySQLD)
	return m
}

func (m *machine) path(path string) string { return filepath.Join(m.dir, path) }

func (m *machine) write(path, content string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(path)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path(path), []byte(content), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// read returns a file's content, empty when there is none.
func (m *machine) read(path string) string {
	content, err := os.ReadFile(m.path(path))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(content)
}

// run runs one of the script's functions, or any other command, and returns what it printed and whether it succeeded.
func (m *machine) run(command string, env ...string) (string, bool) {
	m.t.Helper()
	text, _, _ := strings.Cut(string(assemble(m.input)), "\ncase ${1:-setup} in")
	for _, root := range []string{"/etc/", "/var/", "/run/", "/opt/", "/sys/", "/dev/xvd", "/dev/$"} {
		text = strings.ReplaceAll(text, " "+root, " "+m.dir+root)
		text = strings.ReplaceAll(text, "="+root, "="+m.dir+root)
		text = strings.ReplaceAll(text, `"`+root, `"`+m.dir+root)
	}
	cmd := exec.CommandContext(m.t.Context(), "bash", "-c", text+stubs+command)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func (m *machine) mustRun(command string, env ...string) string {
	m.t.Helper()
	out, ok := m.run(command, env...)
	if !ok {
		m.t.Fatalf("%s failed:\n%s", command, out)
	}
	return out
}

func TestJoinFromKeyToCertificate(t *testing.T) {
	m := newMachine(t)
	m.mustRun("configure; keys")
	request := pki.MemberRequest{
		CSR: []byte(m.read(ExchangeDir + "/member.csr")), Seal: m.read(ExchangeDir + "/member.seal"),
		InstanceID: m.read(ExchangeDir + "/instance-id"), Member: m.input.Member, Incarnation: m.input.Incarnation,
		DNSNames: []string{"orders-1.orders.shop.svc"}, IPs: []net.IP{net.IPv4(10, 77, 1, 5)}, OperatorCertPEM: m.operator,
	}
	certPEM, serial, err := m.authority.SignMember(request, time.Now())
	if err != nil {
		t.Fatalf("the operator does not accept what the script sealed: %v", err)
	}
	current := func() string {
		target, err := os.Readlink(m.path(TLSDir + "/current.pem"))
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	if current() != "bootstrap.pem" {
		t.Errorf("before the certificate comes, current.pem is %s", current())
	}

	other := newMachine(t)
	other.mustRun("configure; keys")
	foreign := request
	foreign.CSR = []byte(other.read(ExchangeDir + "/member.csr"))
	foreign.Seal = pki.Seal(m.input.JoinToken, foreign.CSR, foreign.InstanceID)
	otherKey, _, err := m.authority.SignMember(foreign, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"cert-00000000000000aa.pem": "nonsense",
		"cert-00000000000000ab.pem": "",
		"cert-00000000000000ac.pem": string(otherKey),
		"cert-00000000000000ad.pem": m.read(TLSDir + "/bootstrap.pem"),
		"cert-00000000000000ae.pem": string(m.operator),
	} {
		m.write(ExchangeDir+"/"+name, content)
	}
	if err := os.Symlink(m.path(TLSDir+"/ca.pem"), m.path(ExchangeDir+"/cert-00000000000000af.pem")); err != nil {
		t.Fatal(err)
	}
	m.mustRun("certificate")
	if current() != "bootstrap.pem" {
		t.Errorf("a wrong certificate was installed: %s", current())
	}

	m.write(ExchangeDir+"/cert-"+serial+".pem", string(certPEM))
	m.mustRun("certificate")
	if want := "issued-" + serial + ".pem"; current() != want || m.read(TLSDir+"/current.pem") != string(certPEM) {
		t.Errorf("current.pem is %s, want %s", current(), want)
	}
	before := m.read(TLSDir + "/member.key")
	m.mustRun("keys; certificate")
	if m.read(TLSDir+"/member.key") != before || m.read(TLSDir+"/current.pem") != string(certPEM) {
		t.Error("a second run changed the key or the certificate")
	}

	renewed, serial, err := m.authority.SignMember(request, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m.write(ExchangeDir+"/cert-"+serial+".pem", string(renewed))
	m.mustRun("certificate")
	if m.read(TLSDir+"/current.pem") != string(renewed) {
		t.Error("the renewed certificate was not installed")
	}

	m.write("/var/lib/cloud/data/instance-id", "i-0aaaaaaaaaaaaaaaa\n")
	m.mustRun("keys")
	if m.read(TLSDir+"/member.key") == before || current() != "bootstrap.pem" {
		t.Error("an image of a member kept that member's key or certificate")
	}
	if files, err := filepath.Glob(m.path(TLSDir + "/.*")); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestVolumeIsRecognised(t *testing.T) {
	own, foreign := testUID+" orders-1", testUID+" orders-2"
	marker := DataRoot + "/nairobi-mysql.volume"
	for name, tc := range map[string]struct {
		data    bool
		marker  string
		half    bool // an initialise that was cut off
		ok      bool
		initial bool // initialised
		adopted bool
		moved   bool // adopted on another instance, which is gone
	}{
		"empty":                      {ok: true, initial: true},
		"initialise was cut off":     {half: true, ok: true, initial: true},
		"its own":                    {data: true, marker: own, ok: true},
		"another member's":           {data: true, marker: foreign, ok: true, adopted: true},
		"another cluster's":          {data: true, marker: "other orders-1", ok: true, adopted: true},
		"never started":              {data: true, ok: true, adopted: true},
		"its own, the data gone":     {marker: own},
		"another's, the data gone":   {marker: foreign, ok: true, initial: true},
		"its own, an old half there": {data: true, marker: own, half: true, ok: true},
		"its own, from another host": {data: true, marker: own, moved: true, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if tc.data {
				m.write(DataDir+"/auto.cnf", "old")
				m.write(DataDir+"/mysqld-auto.cnf", `{"Version": 2}`)
				m.write(DataDir+"/private_key.pem", "known to others")
				m.write(DataDir+"/mysqld.my", `{"components": "file://component_keyring_file"}`)
				m.write(DataDir+"/ibdata1", "precious")
			}
			if tc.marker != "" {
				m.write(marker, tc.marker+"\n")
			}
			if tc.half {
				m.write(DataDir+".new/auto.cnf", "half")
			}
			if tc.moved {
				m.write(DataRoot+"/adopted", "")
			}
			out, ok := m.run("prepare")
			if ok != tc.ok {
				t.Fatalf("succeeded: %t\n%s", ok, out)
			}
			if got := strings.Contains(out, "nairobi-mysql: initialise\n"); got != tc.initial {
				t.Errorf("initialised: %t\n%s", got, out)
			}
			if tc.data && m.read(DataDir+"/ibdata1") != "precious" {
				t.Error("the data was touched")
			}
			serve := m.read("/run/nairobi-mysql/serve")
			adopted := strings.Contains(serve, "adopt.sql")
			if adopted != tc.adopted {
				t.Errorf("adopted: %t; %s", adopted, serve)
			}
			if !tc.ok {
				return
			}
			if got := strings.Contains(m.read("/cleansed"), "cleanse.sql --skip-grant-tables"); got != tc.adopted {
				t.Errorf("cleansed: %t", got)
			}
			if tc.adopted && (m.read(DataDir+"/auto.cnf")+m.read(DataDir+"/mysqld-auto.cnf")+m.read(DataDir+"/private_key.pem")+m.read(DataDir+"/mysqld.my") != "" ||
				!strings.HasSuffix(m.read(ConfigDir+"/adopt.sql"), "\nRESET REPLICA ALL;\n")) {
				t.Error("an adopted volume kept its identity")
			}
			if tc.adopted && strings.TrimSpace(m.read(marker)) == own {
				t.Error("an adopted volume is marked before the server has started on it")
			}
			m.mustRun("started")
			if m.read(marker) != own+"\n" {
				t.Errorf("the marker is %q", m.read(marker))
			}
			before := m.read("/cleansed")
			m.mustRun("prepare")
			if serve := m.read("/run/nairobi-mysql/serve"); strings.Contains(serve, "adopt") || strings.Contains(serve, "--event-scheduler=OFF") != (tc.adopted || tc.moved) || m.read("/cleansed") != before {
				t.Errorf("the next start adopts again: %s", serve)
			}
		})
	}
}

// The events of adopted data are held back by an argument of mysqld, which the operator takes back when it makes the member
// writable: what the settings say against events must not be taken for that.
func TestEventsOfAdoptedDataAreHeldBack(t *testing.T) {
	for setting, held := range map[string]bool{"": true, "ON": true, "OFF": false, "off": false, "0": false} {
		m := newMachine(t)
		if setting != "" {
			m.input.Settings = map[string]string{"event_scheduler": setting}
		}
		m.write(DataDir+"/ibdata1", "precious")
		m.mustRun("prepare")
		if serve := m.read("/run/nairobi-mysql/serve"); strings.Contains(serve, "--event-scheduler=OFF") != held {
			t.Errorf("with event_scheduler %q: %s", setting, serve)
		}
	}
}

// What only a stranger could have put onto a volume keeps it from being opened, before anything is written to it. On the member's
// own volume nobody looks: a start must not take long there.
func TestAVolumeThatLeadsOutIsNotOpened(t *testing.T) {
	for name, plant := range map[string]func(*machine) error{
		"a link to a key": func(m *machine) error { return os.Symlink("/etc/passwd", m.path(DataDir+"/t.CSV")) },
		"a link deep in it": func(m *machine) error {
			m.write(DataDir+"/shop/db/t.ibd", "")
			return os.Symlink("/", m.path(DataDir+"/shop/db/root"))
		},
		"a link for the folder that root makes": func(m *machine) error { return os.Symlink(m.path(TLSDir), m.path(DataRoot+"/tmp")) },
		"a link for the mark": func(m *machine) error {
			return os.Symlink(m.path(ConfigDir+"/mark"), m.path(DataRoot+"/nairobi-mysql.volume"))
		},
		"a link for the data": func(m *machine) error {
			return errors.Join(os.Rename(m.path(DataDir), m.path("/elsewhere")), os.Symlink(m.path("/elsewhere"), m.path(DataDir)))
		},
		"a pipe":              func(m *machine) error { return syscall.Mkfifo(m.path(DataDir+"/ibdata2"), 0o600) },
		"a pipe for the mark": func(m *machine) error { return syscall.Mkfifo(m.path(DataRoot+"/nairobi-mysql.volume"), 0o600) },
		"a socket": func(m *machine) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			t.Chdir(m.path(DataDir)) // a socket's path is short
			return errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: "s"}), syscall.Close(fd))
		},
		"a binary log elsewhere": func(m *machine) error {
			m.write(DataDir+"/binlog.index", "./binlog.000001\n/etc/nairobi-mysql/tls/member.key\n")
			return nil
		},
		"a relay log above it": func(m *machine) error { m.write(DataDir+"/relay.index", "../nairobi-mysql.volume\n"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write(DataDir+"/ibdata1", "precious")
			m.write(DataDir+"/auto.cnf", "old")
			m.write(ConfigDir+"/mark", testUID+" orders-1\n")
			if err := plant(m); err != nil {
				t.Fatal(err)
			}
			out, ok := m.run("prepare")
			if ok || !strings.Contains(out, "failed: volume vol-0123456789abcdef0") || !strings.Contains(out, "it is not opened") {
				t.Errorf("succeeded: %t\n%s", ok, out)
			}
			if m.read(DataDir+"/auto.cnf") != "old" || m.read("/run/nairobi-mysql/serve") != "" {
				t.Error("it went on all the same")
			}
		})
	}
	m := newMachine(t)
	m.write(DataDir+"/binlog.index", "./binlog.000001\n./binlog.000002\n")
	m.write(DataDir+"/relay.index", "relay.000001\n")
	m.mustRun("prepare; started")
	if err := os.Symlink("/etc/passwd", m.path(DataDir+"/link")); err != nil {
		t.Fatal(err)
	}
	m.mustRun("prepare")
}

// A data volume is mounted so that nothing on it can be run, whoever filled it.
func TestNothingRunsFromTheVolume(t *testing.T) {
	m := newMachine(t)
	out := m.mustRun(`volume_mounted=
mountpoint() { [ "$volume_mounted" ]; }
device() { echo "` + m.path("/device") + `"; }
blank() { false; }
mount() { echo "mount $*"; volume_mounted=1; }
need() { :; }
grow() { :; }
machine() { cat "$conf/instance"; }
echo i-1 >"$conf/instance"
mount_volume`)
	if !strings.Contains(out, "mount -o noatime,nosuid,nodev,noexec "+m.path("/device")+" "+m.path(DataRoot)) {
		t.Errorf("it is mounted by\n%s", out)
	}
}

// disk makes a disk of the machine, with a serial unless that is empty.
func (m *machine) disk(name, serial string) {
	m.t.Helper()
	path := m.path("/dev/" + name)
	// Nobody opens it: a loop device that does not exist.
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), syscall.Mknod(path, syscall.S_IFBLK|0o600, 7<<8|250)); err != nil {
		m.t.Fatal(err)
	}
	if serial != "" {
		m.write("/sys/block/"+name+"/device/serial", serial+"\n")
	}
}

func (m *machine) link(path, to string) {
	m.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(m.path(path)), 0o755), os.Symlink(to, m.path(path))); err != nil {
		m.t.Fatal(err)
	}
}

// Only the disk that proves by its serial to be the data volume is formatted, whatever udev and the place of its attachment say. All
// disks are blank here, and whatever appears late appears after the second pause. It needs root, for the disks.
func TestOnlyTheDataVolumeIsFormatted(t *testing.T) {
	const ours, foreign = "vol0123456789abcdef0", "vol0aaaaaaaaaaaaaaaa"
	const byID = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"
	for name, tc := range map[string]struct {
		volume string
		disks  func(*machine)
		late   string // moved into place late
		want   string
	}{
		"beside another one": {disks: func(m *machine) {
			m.disk("nvme0n1", "vol0bbbbbbbbbbbbbbbb")
			m.disk("nvme1n1", foreign)
			m.disk("nvme2n1", ours)
		}, want: "nvme2n1"},
		"another one at the place of ours": {disks: func(m *machine) {
			m.disk("nvme1n1", foreign)
			m.link("/dev/sdf", "nvme1n1")
			m.link("/dev/xvdf", "nvme1n1")
		}},
		"stale links": {disks: func(m *machine) {
			m.disk("nvme1n1", foreign)
			m.link(byID+ours, "../../nvme1n1")
			m.link(byID+ours+"_1", "../../nvme1n1")
		}},
		"stale links, and ours comes": {disks: func(m *machine) {
			m.disk("nvme1n1", foreign)
			m.link(byID+ours, "../../nvme1n1")
			m.disk("nvme2n1", ours)
		}, late: "/sys/block/nvme2n1", want: "nvme2n1"},
		"links that never come":          {disks: func(m *machine) { m.disk("nvme1n1", ours) }, want: "nvme1n1"},
		"a device that comes late":       {disks: func(m *machine) { m.disk("nvme1n1", ours) }, late: "/dev/nvme1n1", want: "nvme1n1"},
		"a serial that is filled up":     {volume: "vol-1234abcd", disks: func(m *machine) { m.disk("nvme1n1", "vol1234abcd         ") }, want: "nvme1n1"},
		"a serial that begins like ours": {volume: "vol-1234abcd", disks: func(m *machine) { m.disk("nvme1n1", "vol1234abcde") }},
		"no serial at the place of ours": {disks: func(m *machine) { m.disk("xvdf", "") }},
		"on another hypervisor than Xen": {disks: func(m *machine) { m.disk("xvdf", ""); m.write("/sys/hypervisor/type", "kvm\n") }},
		"on Xen":                         {disks: func(m *machine) { m.disk("xvdf", ""); m.write("/sys/hypervisor/type", "xen\n") }, want: "xvdf"},
		"on Xen, attached elsewhere":     {disks: func(m *machine) { m.disk("xvdg", ""); m.write("/sys/hypervisor/type", "xen\n") }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if tc.volume != "" {
				m.input.VolumeID = tc.volume
			}
			tc.disks(m)
			late := ":"
			if tc.late != "" {
				hidden := m.path("/late")
				if err := os.Rename(m.path(tc.late), hidden); err != nil {
					t.Fatal(err)
				}
				late = "mv " + hidden + " " + m.path(tc.late)
			}
			m.write(ConfigDir+"/instance", testInstanceID+"\n")
			out, ok := m.run(`volume_mounted='' pauses=0
				sleep() { pauses=$((pauses + 1)); [ "$pauses" != 2 ] || ` + late + `; [ "$pauses" -lt 400 ] || exit 1; }
				mountpoint() { [ "$volume_mounted" ]; }
				blank() { true; }
				sync() { :; }
				grow() { :; }
				mkfs.xfs() { for formatted; do :; done; echo "formatted ${formatted##*/}"; }
				mount() { [ "$formatted" = "$3" ] && volume_mounted=1; }
				formatted=''
				mount_volume`)
			if tc.want == "" {
				if ok || strings.Contains(out, "formatted") || !strings.Contains(out, "failed: volume "+m.input.VolumeID+" is not attached yet") {
					t.Errorf("ended %t:\n%s", ok, out)
				}
			} else if !ok || strings.Count(out, "formatted") != 1 || !strings.Contains(out, "formatted "+tc.want+"\n") {
				t.Errorf("want %s; ended %t:\n%s", tc.want, ok, out)
			}
		})
	}
}

// The report on the data volume is there from the first start on, and never of another file system.
func TestDiskReport(t *testing.T) {
	m := newMachine(t)
	const report = ExchangeDir + "/machine/disk"
	m.mustRun("report")
	if got := m.read(report); got != "" {
		t.Errorf("a report before anything is set up: %q", got)
	}
	m.mustRun("prepare; started")
	var size, free, at int64
	if n, err := fmt.Sscanf(m.read(report), "%d %d %d\n", &size, &free, &at); err != nil || n != 3 || size <= 0 || free > size ||
		time.Since(time.Unix(at, 0)).Abs() > time.Minute {
		t.Errorf("report %q: %v", m.read(report), err)
	}
	m.write(report, "old")
	m.mustRun("report", "STUB_UNMOUNTED=1")
	if got := m.read(report); got != "old" {
		t.Errorf("with the volume away it says %q", got)
	}
	// The server's start does not fail over it.
	m.mustRun("stat() { false; }; started")
	m.mustRun("report")
	if got := m.read(report); got == "old" || len(strings.Fields(got)) != 3 {
		t.Errorf("report %q", got)
	}
	m.write("/var/lib/cloud/data/instance-id", "i-0aaaaaaaaaaaaaaaa\n")
	m.mustRun("keys; report")
	if got := m.read(report); len(strings.Fields(got)) != 3 {
		t.Errorf("on another instance: %q", got)
	}
}

// TestWhyTheLastRunEndedIsReported: the operator reads it over SQL when mysqld was restarted unexpectedly.
func TestWhyTheLastRunEndedIsReported(t *testing.T) {
	m := newMachine(t)
	const report, start = ExchangeDir + "/machine/error", "echo 'T 0 [System] [MY-015015] [Server] MySQL Server - start.'; "
	for name, row := range map[string]struct{ journal, want string }{
		"nothing is logged":           {"", ""},
		"no journal":                  {"false", ""},
		"it was shut down":            {start + "echo 'T 0 [System] [MY-010910] [Server] Shutdown complete'", ""},
		"the first error":             {"echo 'T 0 [ERROR] of an older run'; " + start + "echo 'T 1 [ERROR] corrupt page'; echo 'T 2 [ERROR] Assertion failure'", "T 1 [ERROR] corrupt page\n"},
		"not one of replication":      {start + "echo 'T 1 [ERROR] [MY-1] [Repl] lost connection'; echo 'T 2 [ERROR] corrupt page'", "T 2 [ERROR] corrupt page\n"},
		"a signal":                    {start + "echo 'T UTC - mysqld got signal 11 ;'", "T UTC - mysqld got signal 11 ;\n"},
		"an error rather than signal": {start + "echo 'T [ERROR] Assertion'; echo 'T UTC - mysqld got signal 6 ;'", "T [ERROR] Assertion\n"},
	} {
		m.mustRun("journalctl() { " + row.journal + "\n:; }; prepare; started")
		if got := m.read(report); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// TestABootIsReported: the operator reads over SQL which boot a run of mysqld is in, and whether the run in front of it was shut down.
func TestABootIsReported(t *testing.T) {
	m := newMachine(t)
	const report, start, over = ExchangeDir + "/machine/boot", "echo 'T 0 [System] [MY-015015] [Server] MySQL Server - start.'; ", "echo 'T 0 [System] [MY-010910] [Server] /opt/mysqld: Shutdown complete (mysqld 9.7.4)'"
	begin := func(journal string) (boot, ended string) {
		m.mustRun("journalctl() { " + journal + "\n:; }; prepare; started")
		boot, ended, _ = strings.Cut(m.read(report), "\n")
		return boot, ended
	}
	first, ended := begin(":")
	if len(first) != 36 || ended != "" {
		t.Errorf("at first: %q, %q", first, ended)
	}
	for name, row := range map[string]struct{ journal, want string }{
		"no journal":             {"false", ""},
		"it was killed":          {start, ""},
		"it was shut down":       {start + over, "Shutdown complete\n"},
		"an older run was":       {start + over + "; " + start, ""},
		"an error led to it":     {start + "echo 'T 1 [ERROR] corrupt page'; " + over, ""},
		"an error of its source": {start + "echo 'T 1 [ERROR] [MY-1] [Repl] lost connection'; " + over, "Shutdown complete\n"},
	} {
		if boot, ended := begin(row.journal); boot != first || ended != row.want {
			t.Errorf("%s: %q, want %q; boot %q, want %q", name, ended, row.want, boot, first)
		}
	}
	if err := os.RemoveAll(m.path("/run/nairobi-mysql")); err != nil { // it is in memory
		t.Fatal(err)
	}
	if second, _ := begin(start + over); len(second) != 36 || second == first {
		t.Errorf("the second boot is %q, the first was %q", second, first)
	}
}

func TestNothingIsMadeOnTheRootDisk(t *testing.T) {
	m := newMachine(t)
	out, ok := m.run("prepare", "STUB_UNMOUNTED=1")
	if ok || !strings.Contains(out, "failed: volume vol-0123456789abcdef0 is not mounted") || strings.Contains(out, "initialise") {
		t.Errorf("succeeded: %t\n%s", ok, out)
	}
}

func TestMissingToolsAreNamed(t *testing.T) {
	m := newMachine(t)
	const none = "dnf() { false; }; apt-get() { false; }; "
	if out, ok := m.run(none + "need no-such-command some-package"); ok ||
		!strings.Contains(out, "failed: the image has no no-such-command, and the package some-package cannot be installed") {
		t.Errorf("succeeded: %t\n%s", ok, out)
	}
	m.mustRun(none + "need bash bash")
	m.mustRun("dnf() { [ \"$*\" = '-y -q install some-package' ]; }; need no-such-command some-package")
	m.mustRun("dnf() { false; }; apt-get() { :; }; need no-such-command some-package")
	m.mustRun("dnf() { [ \"$*\" = '-y -q install xz' ]; }; need no-such-command xz xz-utils")
	m.mustRun("dnf() { false; }; apt-get() { case $* in *install*) [ \"${*: -1}\" = xz-utils ] ;; esac; }; need no-such-command xz xz-utils")
}

// A volume that mysqld cannot read is told as what it is, and the third try is without the user's settings.
func TestAVolumeThatCannotBeReadIsTold(t *testing.T) {
	m := newMachine(t)
	m.write(DataDir+"/ibdata1", "of a newer MySQL")
	for n := range 3 {
		out, ok := m.run("prepare", "STUB_UNREADABLE=1")
		if ok || !strings.Contains(out, "failed: adopt: T 0 [ERROR] [MY-000067]") {
			t.Errorf("succeeded: %t\n%s", ok, out)
		}
		if without := m.read(ConfigDir+"/launch.cnf") == ""; without != (n == 2) {
			t.Errorf("try %d without the user's settings: %t", n+1, without)
		}
	}
	if m.read("/run/nairobi-mysql/serve") != "" || m.read(DataRoot+"/nairobi-mysql.volume") != "" {
		t.Error("it went on all the same")
	}
}

func TestInitialiseThatFailsLeavesNoDataDirectory(t *testing.T) {
	m := newMachine(t)
	out, ok := m.run("prepare", "STUB_BROKEN=1")
	if ok || !strings.Contains(out, "failed: initialise: T 0 [ERROR] [MY-000067]") {
		t.Errorf("succeeded: %t\n%s", ok, out)
	}
	if _, err := os.Stat(m.path(DataDir)); !os.IsNotExist(err) {
		t.Error("there is a data directory")
	}
	m.mustRun("prepare")
}

// The third start in a row that comes to nothing leaves out the settings of the launch, for good; every third one after that those that
// are persisted. Each says so.
func TestBadSettingsCanBeUndone(t *testing.T) {
	m := newMachine(t)
	m.mustRun("prepare; started")
	for n, without := range []string{"", "", "launch", "", "", "persisted", "", "", "persisted"} {
		out := m.mustRun("prepare")
		serve, settings := m.read("/run/nairobi-mysql/serve"), m.read(ConfigDir+"/launch.cnf")
		if got := strings.Contains(serve, "--persisted-globals-load=OFF"); got != (without == "persisted") {
			t.Errorf("start %d without persisted settings: %t", n, got)
		}
		if got := settings == ""; got != (n >= 2) {
			t.Errorf("start %d without the launch's settings: %t", n, got)
		}
		if got := strings.Contains(out, "starting once without the persisted settings"); got != (without == "persisted") {
			t.Errorf("start %d said that it is without persisted settings: %t", n, got)
		}
		if got := strings.Contains(out, "starting without the settings of the launch"); got != (without == "launch") {
			t.Errorf("start %d said that it is without the launch's settings: %t", n, got)
		}
		if said := strings.Contains(out, "failed: mysqld did not start: T 0 [ERROR] [MY-000067]"); said != (n > 0) {
			t.Errorf("start %d said why the last one failed: %t\n%s", n, said, out)
		}
	}
	m.mustRun("started; prepare")
	if serve := m.read("/run/nairobi-mysql/serve"); strings.Contains(serve, "OFF") {
		t.Errorf("a start after one that succeeded: %s", serve)
	}
	if settings := m.read(ConfigDir + "/launch.cnf"); settings != "" {
		t.Errorf("the settings that kept mysqld from starting came back: %s", settings)
	}
}

func TestRedoLogIsMeasuredByTheVolume(t *testing.T) {
	const gib = 1 << 30 / 4096 // in blocks of the file system
	for name, row := range map[string]struct {
		processors, blocks int
		set, want          string
	}{
		"two processors, the default volume":  {processors: 2, blocks: 20 * gib},
		"two processors, a small volume":      {processors: 2, blocks: 2 * gib, want: "512M"},
		"many processors, a small volume":     {processors: 96, blocks: 20 * gib, want: "5120M"},
		"many processors, a large volume":     {processors: 96, blocks: 64 * gib},
		"the least that mysqld takes":         {processors: 2, blocks: gib / 64, want: "8M"},
		"one processor: mysqld takes 8 MiB":   {processors: 1, blocks: 20 * gib / 64},
		"the size of a log file of MySQL 8.4": {processors: 96, blocks: 20 * gib, set: "innodb_log_file_size"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			stubs := fmt.Sprintf("nproc() { echo %d; }; stat() { if [ \"$1\" = -f ]; then echo '%d * 4096'; else command stat \"$@\"; fi; }; ", row.processors, row.blocks)
			if row.set != "" {
				m.write(DataDir+"/mysqld-auto.cnf", `{"Version": 2, "mysql_static_variables": {"`+row.set+`": {"Value": "1073741824"}}}`)
				m.write(DataRoot+"/nairobi-mysql.volume", testUID+" orders-1\n")
			}
			want := ""
			if row.want != "" {
				want = "[mysqld]\ninnodb_redo_log_capacity=" + row.want + "\n"
			}
			m.mustRun(stubs + "prepare; started")
			if got := m.read(ConfigDir + "/redo.cnf"); got != want {
				t.Errorf("redo.cnf is %q, want %q", got, want)
			}
		})
	}
}

// A mysqld that never got as far as its log is told by its last words.
func TestProgramThatDoesNotRunIsTold(t *testing.T) {
	m := newMachine(t)
	m.mustRun("prepare; started")
	m.mustRun("prepare")
	if out := m.mustRun("prepare", "STUB_SPEECHLESS=1"); !strings.Contains(out, "failed: mysqld did not start: mysqld: error while loading shared libraries\n") {
		t.Errorf("it said:\n%s", out)
	}
}

func TestSettingsOfTheLaunchGiveWayToPersistedOnes(t *testing.T) {
	m := newMachine(t)
	m.mustRun("prepare; started")
	if got := m.read(ConfigDir + "/launch.cnf"); got != RenderLaunchSettings(m.input) {
		t.Errorf("launch.cnf is %q", got)
	}
	m.write(DataDir+"/mysqld-auto.cnf", `{"Version": 2, "mysql_dynamic_parse_early_variables": {"max_connections": {"Value": "77"}}}`)
	m.mustRun("prepare; started")
	if got := m.read(ConfigDir + "/launch.cnf"); got != "" {
		t.Errorf("launch.cnf is %q although the settings are persisted", got)
	}
	if serve := m.read("/run/nairobi-mysql/serve"); strings.Contains(serve, "OFF") {
		t.Errorf("persisted settings do not count: %s", serve)
	}
	if err := os.Remove(m.path(DataDir + "/mysqld-auto.cnf")); err != nil {
		t.Fatal(err)
	}
	m.mustRun("prepare; started")
	if got := m.read(ConfigDir + "/launch.cnf"); got != "" {
		t.Errorf("the launch's settings came back: %q", got)
	}
	m.write(DataDir+"/mysqld-auto.cnf", `{"Version": 2, "mysql_dynamic_variables": {"super_read_only": {"Value": "OFF"}}}`)
	m.mustRun("prepare")
	if serve := m.read("/run/nairobi-mysql/serve"); !strings.Contains(serve, "--persisted-globals-load=OFF") {
		t.Errorf("a persisted super_read_only counts: %s", serve)
	}
}

func TestServerIsOfTheWantedVersion(t *testing.T) {
	for version, want := range map[string]bool{"9.7.4": true, "9.7.4-2": true, "9.7.40": false, "9.7.3": false, "19.7.4": false} {
		m := newMachine(t)
		if _, ok := m.run("find_mysqld", "STUB_VERSION="+version); ok != want {
			t.Errorf("a server of version %s was taken: %t", version, ok)
		}
	}
}

func TestLibrariesThatTheTarballLacksAreInstalledAndItIsFetchedOnce(t *testing.T) {
	for name, packages := range map[string]string{
		"as Fedora calls them": "dnf() { touch \"$libaio\"; }; apt-get() { return 1; }; ",
		"as Debian did":        "dnf() { return 127; }; apt-get() { case $* in *' libaio1') touch \"$libaio\" ;; *t64) return 1 ;; esac; }; ",
		"as Debian does":       "dnf() { return 127; }; apt-get() { case $* in *' libaio1') return 1 ;; *t64) touch \"$libaio\".1t64 ;; esac; }; ",
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if err := os.RemoveAll(m.path("/opt/mysql-9.7.4")); err != nil {
				t.Fatal(err)
			}
			m.write("/tree/mysql-9.7.4-linux/bin/mysqld", strings.Replace(stubMySQLD, "\n", "\n[ -e \""+m.path("/libaio")+"\" ] || exit 127\n", 1))
			m.mustRun(`tar -cJf "` + m.path("/tarball") + `" -C "` + m.path("/tree") + `" mysql-9.7.4-linux`)
			m.input.Download.SHA256 = strings.Fields(m.mustRun(`sha256sum "` + m.path("/tarball") + `"`))[0]
			stand := `libaio="` + m.path("/libaio") + `"
				curl() { local last="" to; echo fetched >>"` + m.path("/fetched") + `"; for to; do [ "$last" != -o ] || cp "` + m.path("/tarball") + `" "$to"; last=$to; done; }
				ln() { [ ! -e "$libaio.1t64" ] || touch "$libaio"; }
			`
			out, ok := m.run(stand + "dnf() { return 1; }; apt-get() { return 1; }; download")
			if ok || !strings.Contains(out, "does the image have libaio and numactl?") {
				t.Errorf("a mysqld without its libraries was taken: %t\n%s", ok, out)
			}
			if out, ok := m.run(stand + packages + "download"); !ok {
				t.Errorf("the libraries were not installed:\n%s", out)
			}
			if fetched := m.read("/fetched"); fetched != "fetched\n" {
				t.Errorf("the tarball was fetched again:\n%s", fetched)
			}
		})
	}
}

func TestServersOfTheImageAreSwitchedOffWhicheverThereAre(t *testing.T) {
	for _, unit := range []string{"mysql", "mysqld", "mariadb"} {
		m := newMachine(t)
		// As systemd from 253 on: nothing is done when one of the units does not exist.
		out := m.mustRun(`install() { :; }; units() { :; }
			systemctl() {
				case $1 in disable | mask) ;; *) return 0 ;; esac
				[ "$*" = "$1 --now ` + unit + `" ] || return 1
				echo "$1 $3" >>"` + m.path("/done") + `"
			}
			setup`)
		if done := m.read("/done"); done != "disable "+unit+"\nmask "+unit+"\n" {
			t.Errorf("%s is left on: %q\n%s", unit, done, out)
		}
	}
}

// The fence is a power cut: what stands on the root disk by then must be whole.
func TestWhatTheNextBootReliesOnIsOnTheDiskFirst(t *testing.T) {
	m := newMachine(t)
	// Runs in the place of sync, and so sees what would be there had the power gone right after it.
	look := `sync() { echo "synced: $(cd "$exchange" 2>/dev/null && echo *) $(readlink "$tls/current.pem")"; }; `
	out := m.mustRun(look + "configure; keys")
	if want := "synced: machine member.csr member.seal bootstrap.pem\n"; !strings.Contains(out, want) || m.read(ExchangeDir+"/instance-id") == "" {
		t.Errorf("the keys were called complete before they were on the disk: want %q in\n%s", want, out)
	}
	certPEM, serial, err := m.authority.SignMember(pki.MemberRequest{
		CSR: []byte(m.read(ExchangeDir + "/member.csr")), Seal: m.read(ExchangeDir + "/member.seal"),
		InstanceID: m.read(ExchangeDir + "/instance-id"), Member: m.input.Member, Incarnation: m.input.Incarnation,
		DNSNames: []string{"orders-1.orders.shop.svc"}, IPs: []net.IP{net.IPv4(10, 77, 1, 5)}, OperatorCertPEM: m.operator,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m.write(ExchangeDir+"/cert-"+serial+".pem", string(certPEM))
	m.write(TLSDir+"/issued-"+serial+".pem", "") // as a power cut can leave it
	out = m.mustRun(look + "certificate")
	if !strings.Contains(out, " bootstrap.pem\n") || m.read(TLSDir+"/current.pem") != string(certPEM) {
		t.Errorf("the certificate was not installed, or shown before it was on the disk:\n%s", out)
	}
	out = m.mustRun(`sync() { echo "synced: $2"; }; install() { :; }; units() { echo units; }; systemctl() { echo "$1"; }; setup`)
	if _, after, ok := strings.Cut(out, "enable\n"); !ok || !strings.HasPrefix(after, "synced: ") || !strings.HasSuffix(out, "restart\n") {
		t.Errorf("the units are not on the disk before they start:\n%s", out)
	}
}

func TestOnlyABlankVolumeIsFormatted(t *testing.T) {
	const size = 8 << 20
	zero := func() []byte { return make([]byte, size) }
	at := func(offset int, content string) []byte {
		b := zero()
		copy(b[offset:], content)
		return b
	}
	for name, tc := range map[string]struct {
		content []byte
		blank   bool
	}{
		"never written":                  {zero(), true},
		"an XFS superblock":              {at(0, "XFSB"), false},
		"an ext4 superblock":             {at(1080, "\x53\xef"), false},
		"a byte in the first MiB":        {at(1<<20-1, "x"), false},
		"a byte in the last MiB":         {at(size-1<<20, "x"), false},
		"the last byte":                  {at(size-1, "x"), false},
		"a partition table":              {at(510, "\x55\xaa"), false},
		"too small to be a data volume":  {make([]byte, 1<<20), false},
		"empty, as what cannot be sized": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write("/device", string(tc.content))
			if _, ok := m.run(`blank "` + m.path("/device") + `"`); ok != tc.blank {
				t.Errorf("blank: %t", ok)
			}
		})
	}
	m := newMachine(t)
	if _, ok := m.run(`blank "` + m.path("/missing") + `"`); ok {
		t.Error("a device that cannot be read counts as blank")
	}
}
