package bootstrap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/releasekeys"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
)

// update rewrites the golden files: go test ./internal/bootstrap -update.
var update = flag.Bool("update", false, "rewrite the golden files")

const testUID = "7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f"

// testCA is a certificate as the cluster CA's is, fixed so that the golden file is.
const testCA = `-----BEGIN CERTIFICATE-----
MIIBrzCCAVagAwIBAgIIQ3hpbGQgQ0EwCgYIKoZIzj0EAwIwQzEtMCsGA1UEChMk
N2Q5ZjZjMWUtM2M1NC00ZjBhLTlkMWMtMGExYjJjM2Q0ZTVmMRIwEAYDVQQDEwlv
cmRlcnMtY2E=
-----END CERTIFICATE-----
`

func testInput() Input {
	return Input{
		ClusterUID: testUID, Namespace: "shop", Cluster: "orders", Member: "orders-1", Ordinal: 1, Incarnation: 3, VolumeIncarnation: 3,
		Version:    "9.7.4",
		Download:   Download{URL: "https://mirror.example/mysql-9.7.4-linux-glibc2.28-x86_64.tar.xz", SHA256: strings.Repeat("0a", 32)},
		VolumeID:   "vol-0123456789abcdef0",
		CAPEM:      []byte(testCA),
		JoinToken:  strings.Repeat("0123456789abcdef", 4),
		IssuerDN:   "/O=" + testUID + "/CN=orders-ca",
		OperatorDN: "/O=" + testUID + "/OU=operator/CN=nairobi-mysql-operator",
		Settings:   map[string]string{"max_connections": "500", "sql_mode": "ANSI_QUOTES,STRICT_ALL_TABLES"},
	}
}

func mustRender(t *testing.T, in Input) []byte {
	t.Helper()
	userData, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return userData
}

func TestGolden(t *testing.T) {
	got := assemble(testInput())
	path := filepath.Join("testdata", "user-data.sh")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at the difference, then run the test with -update", path)
	}
	t.Logf("%d bytes", len(got))
}

func TestRenderIsDeterministic(t *testing.T) {
	want := mustRender(t, testInput())
	for range 20 {
		in := testInput()
		in.Settings = maps.Clone(in.Settings)
		if !bytes.Equal(mustRender(t, in), want) {
			t.Fatal("the same input gave different user data")
		}
	}
}

func TestScriptPassesShellcheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "user-data.sh")
	// With its comments and indentation, so that what is read here is what people read.
	text := strings.Replace(script, "#@values\n", values(testInput()), 1)
	for name, content := range map[string]string{
		"as it is written": text, "as it is sent": string(assemble(testInput())), "the test's own": "#!/bin/bash\n" + mysqldScenario,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{{"shellcheck", "--enable=check-unassigned-uppercase", path}, {"bash", "-n", path}} {
			if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%s, %s: %v\n%s", name, command[0], err, out)
			}
		}
	}
}

func TestNothingIsLeftToFillIn(t *testing.T) {
	if text := string(assemble(testInput())); strings.Contains(text, "#@") || !strings.HasPrefix(text, "#!/bin/bash\n") {
		t.Error("a marker was not filled in, or the first line is not the interpreter's")
	}
}

func TestScriptUsesTheSamePaths(t *testing.T) {
	for _, want := range []string{
		"conf=" + ConfigDir + "\n", "tls=$conf/tls\n", "exchange=$conf/exchange\n", "root=" + DataRoot + "\n", "data=$root/data\n",
		"RuntimeDirectory=" + strings.TrimPrefix(SocketDir, "/run/") + "\n", "PathChanged=" + ExchangeDir + "\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("the script has no %q", want)
		}
	}
	cnf := RenderConfig(testInput())
	for _, want := range []string{
		"!include " + ConfigDir + "/redo.cnf\n!include " + ConfigDir + "/launch.cnf\n", "ssl_cert=" + TLSDir + "/current.pem\n", "secure_file_priv=" + ExchangeDir + "\n",
		"datadir=" + DataDir + "\n", "socket=" + SocketDir + "/mysqld.sock\n",
	} {
		if !strings.Contains(cnf, want) {
			t.Errorf("my.cnf has no %q", want)
		}
	}
}

// largest is what the API server lets through at most: 64 settings of together 4096 characters, the longest names and
// the longest download, none of which compresses well.
func largest() Input {
	r := rand.New(rand.NewSource(1))
	random := func(n int) string {
		const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.Intn(len(letters))]
		}
		return string(b)
	}
	in := testInput()
	in.Cluster = strings.Repeat("c", 40)
	in.Member = in.Cluster + "-8"
	// The largest keyring: releasekeys.MaxSize.
	ring := make([]byte, releasekeys.MaxSize)
	r.Read(ring)
	in.Download = Download{URL: "https://" + strings.ToLower(random(60)) + "/" + random(1024-70), Keys: releasekeys.Keyring{Packets: ring}}
	in.IssuerDN = "/O=" + testUID + "/CN=" + in.Cluster + "-ca"
	in.Settings = map[string]string{}
	for _, name := range settings.Names("9.7") {
		if len(in.Settings) < 64 && len(settings.ForLaunch("9.7", map[string]string{name: "x"})) > 0 {
			in.Settings[name] = random(max(1, 4096/64-len(name)))
		}
	}
	return in
}

func TestLargestInputFits(t *testing.T) {
	in := largest()
	userData := mustRender(t, in)
	t.Logf("%d bytes", len(userData))
	r, err := gzip.NewReader(bytes.NewReader(userData))
	if err != nil {
		t.Fatalf("the largest input was expected to be sent compressed: %v", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, assemble(in)) {
		t.Error("the text changed when it was compressed")
	}
	if again := mustRender(t, largest()); !bytes.Equal(again, userData) {
		t.Error("the same input gave different user data")
	}
}

func TestTooLargeSaysWhatToDo(t *testing.T) {
	in, r := largest(), rand.New(rand.NewSource(1))
	for _, name := range settings.Names("9.7") { // more than the API server lets through
		if len(settings.ForLaunch("9.7", map[string]string{name: "x"})) > 0 {
			in.Settings[name] = fmt.Sprintf("%x%x%x%x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())
		}
	}
	_, err := Render(in)
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "shorten spec.mysqld") {
		t.Errorf("got %v", err)
	}
}

func TestServerIDsNeverRepeat(t *testing.T) {
	seen := map[uint32]string{}
	for incarnation := 1; incarnation < 200; incarnation++ {
		for ordinal := range 9 {
			id, name := ServerID(ordinal, incarnation), fmt.Sprintf("%d of incarnation %d", ordinal, incarnation)
			if twin, ok := seen[id]; ok || id == 0 {
				t.Fatalf("server_id %d of member %s is 0 or that of member %s", id, name, twin)
			}
			seen[id] = name
		}
	}
	if got := ServerID(1, 3); got != 50 {
		t.Errorf("ServerID(1, 3) = %d, want 50", got)
	}
}

// The settings that the SQL plane puts back when they differ must be the ones that mysqld starts with.
func TestConfigHasThePinnedSettings(t *testing.T) {
	cnf := "\n" + strings.ReplaceAll(RenderConfig(testInput()), "\nloose_", "\n")
	pinned := mysql.PinnedSettings()
	maps.Copy(pinned, mysql.ReadOnlyPins())
	pinned["log_bin"] = "binlog" // ON, as mysqld shows it, under the name of the files
	const byDefault = `autocommit binlog_format binlog_order_commits completion_type default_storage_engine default_tmp_storage_engine init_connect
		init_replica innodb_checksum_algorithm innodb_force_recovery innodb_log_checksums innodb_redo_log_encrypt innodb_undo_log_encrypt
		protocol_compression_algorithms replica_exec_mode replica_max_allowed_packet replica_skip_errors replica_type_conversions`
	for name := range strings.FieldsSeq(byDefault) {
		if strings.Contains(cnf, "\n"+name+"=") {
			t.Errorf("my.cnf sets %s", name)
		}
		delete(pinned, name)
	}
	for name, value := range pinned {
		if !strings.Contains(cnf, "\n"+name+"="+value) {
			t.Errorf("my.cnf does not set %s=%s", name, value)
		}
	}
	_, after, found := strings.Cut(cnf, "!include")
	if !found || strings.Contains(after, "innodb_dedicated_server") {
		t.Error("the pinned settings do not follow the user's")
	}
	if strings.Contains(cnf, "\nrpl_semi_sync_source_enabled") {
		t.Error("semi-sync's source side must not be in my.cnf: it is for the primary alone (MYSQL-FACTS 7)")
	}
}

// Over SQL alone comes what mysqld does not take from its option file, and what it would take for something else there.
func TestWhatAMemberIsLaunchedWith(t *testing.T) {
	in := testInput()
	in.Settings = map[string]string{
		"max_connections": "500", "time_zone": "Asia/Tokyo", "wait_timeou": "7", "loose_sync_binlog": "0", "validate_password.length": "12",
		"sync_binlog": "1", "lower_case_table_names": "1", "restrict_fk_on_non_standard_key": "OFF", "clone_max_data_bandwidth": "100",
		"max_user_connections": "-1", "innodb_redo_log_capacity": "1M",
		"sql_mode": "ANSI_QUOTES, STRICT_ALL_TABLES", "super_read_only": "OFF", "binlog_error_action": "IGNORE_ERROR", // taken before there was a rule
	}
	if _, err := Render(in); err != nil {
		t.Error(err)
	}
	if got, want := RenderLaunchSettings(in), "[mysqld]\nloose_max_connections=\"500\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if cnf := RenderConfig(in); !strings.HasSuffix(cnf, "\nlower_case_table_names=1\n") {
		t.Errorf("my.cnf ends otherwise: %s", cnf)
	}
}

func TestLastStartError(t *testing.T) {
	const before = "nairobi-mysql: failed: mysqld did not start: first\r\nnairobi-mysql: starting\r\n"
	for name, tc := range map[string]struct{ console, want string }{
		"nothing":         {"", ""},
		"it did start":    {"nairobi-mysql: starting\nnairobi-mysql: started\n", ""},
		"the last of two": {before + "kernel: nairobi-mysql: failed: mysqld did not start: [ERROR] second\r\nnairobi-mysql: failed: starting once without the persisted settings\r\nnairobi-mysql: started\r\n", "[ERROR] second"},
	} {
		t.Run(name, func(t *testing.T) {
			if message := LastStartError(tc.console); message != tc.want {
				t.Errorf("%q, want %q", message, tc.want)
			}
		})
	}
}

func TestReadConsole(t *testing.T) {
	const failed = "nairobi-mysql: failed: no room\r\n"
	for name, tc := range map[string]struct {
		console string
		want    Progress
	}{
		"empty":                      {"", Progress{}},
		"another's words":            {"[    0.000000] Linux version 6.1\nnairobi-mysql-volume.service: started\n", Progress{}},
		"one":                        {"nairobi-mysql: start\n", Progress{Stage: StageStart}},
		"the last counts":            {"nairobi-mysql: start\r\nlogin:\r\nnairobi-mysql: volume\r\n", Progress{Stage: StageVolume}},
		"not at a line's beginning":  {"[   12.1] cloud-init[500]: nairobi-mysql: keys\nmore", Progress{Stage: StageKeys}},
		"a failure with its reason":  {"nairobi-mysql: failed: cannot download https://m/x\r\n", Progress{"failed: cannot download https://m/x", "cannot download https://m/x"}},
		"tried again":                {failed + "nairobi-mysql: failed: no xz\r\nnairobi-mysql: configure\r\nnairobi-mysql: download\r\n", Progress{StageDownload, "no xz"}},
		"a failure and then a start": {failed + "nairobi-mysql: starting\r\nnairobi-mysql: started\r\n", Progress{Stage: StageStarted}},
		"a failure of an old boot":   {failed + "nairobi-mysql: started\r\n[ 0.1] Linux\r\nnairobi-mysql: volume\r\n", Progress{Stage: StageVolume}},
		"a failure of this boot":     {"nairobi-mysql: started\n" + failed + "nairobi-mysql: starting\r\n", Progress{StageStarting, "no room"}},
		"cut off":                    {"nairobi-mysql: initial", Progress{Stage: "initial"}},
		"nothing after it":           {"nairobi-mysql: \n", Progress{}},
		"control characters":         {"nairobi-mysql: \x1b[31mstarted\x07\xff\n", Progress{Stage: "[31mstarted"}},
		"too long":                   {"nairobi-mysql: " + strings.Repeat("é", 1000), Progress{Stage: strings.Repeat("é", maxStageLength)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ReadConsole(tc.console); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
