package bootstrap

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hostile values try to leave the quotes, the line, the here-document or the SQL string that they are put into.
func hostile() []string {
	return []string{
		"'; touch canary; '", "$(touch canary)", "`touch canary`", "a\ntouch canary\n", "a\nEND\ntouch canary\n", `\'; touch canary #`,
		"&& touch canary", "| touch canary", "> canary", "${IFS}touch${IFS}canary", "' AND 1=1; DROP USER x; -- ", "\x00touch canary",
		"a\r\ntouch canary", "*", "~root", "!touch canary", "-e touch canary", "\"; touch canary; \"", "\u2028touch canary", "#@init",
	}
}

// fields sets each field that comes from outside to a value.
func fields() map[string]func(*Input, string) {
	return map[string]func(*Input, string){
		"cluster UID":   func(in *Input, v string) { in.ClusterUID = v },
		"namespace":     func(in *Input, v string) { in.Namespace = v },
		"cluster":       func(in *Input, v string) { in.Cluster = v },
		"member":        func(in *Input, v string) { in.Member = v },
		"version":       func(in *Input, v string) { in.Version = v },
		"URL":           func(in *Input, v string) { in.Download.URL = v },
		"mirror":        func(in *Input, v string) { in.Download = Download{Mirror: v, SHA256: in.Download.SHA256} },
		"checksum":      func(in *Input, v string) { in.Download.SHA256 = v },
		"volume":        func(in *Input, v string) { in.VolumeID = v },
		"CA":            func(in *Input, v string) { in.CAPEM = []byte(v) },
		"token":         func(in *Input, v string) { in.JoinToken = v },
		"issuer":        func(in *Input, v string) { in.IssuerDN = v },
		"operator":      func(in *Input, v string) { in.OperatorDN = v },
		"memory":        func(in *Input, v string) { in.MemoryMax = v },
		"setting name":  func(in *Input, v string) { in.Settings = map[string]string{v: "1"} },
		"setting value": func(in *Input, v string) { in.Settings = map[string]string{"max_connections": "5" + v} },
	}
}

// The first lock: no hostile value is accepted in any field, also not behind a good one.
func TestRenderRefusesHostileValues(t *testing.T) {
	for field, set := range fields() {
		for _, value := range hostile() {
			// Behind a 5 these two are ordinary values; the option file has them in quotes.
			if field == "setting value" && (value == "*" || value == "-e touch canary") {
				continue
			}
			in := testInput()
			set(&in, value)
			if _, err := Render(in); err == nil {
				t.Errorf("%s: %q was accepted", field, value)
			}
		}
	}
	for name, change := range map[string]func(*Input){
		"a good CA and more":      func(in *Input) { in.CAPEM = append(in.CAPEM, "touch canary\n"...) },
		"more before a good CA":   func(in *Input) { in.CAPEM = append([]byte("touch canary\n"), in.CAPEM...) },
		"no incarnation":          func(in *Input) { in.Incarnation = 0 },
		"no volume's incarnation": func(in *Input) { in.VolumeIncarnation = 0 },
		"an ordinal too many":     func(in *Input) { in.Ordinal = 16 },
		"a URL and a mirror":      func(in *Input) { in.Download.Mirror = "https://mirror.example" },
		"nothing to verify by":    func(in *Input) { in.Download.SHA256 = "" },
		"a negative ordinal":      func(in *Input) { in.Ordinal = -1 },
		"a setting with a hyphen": func(in *Input) { in.Settings = map[string]string{"max-connections": "5"} },
		"a value with blank ends": func(in *Input) { in.Settings = map[string]string{"max_connections": " 5"} },
		"a value that is cut off": func(in *Input) { in.Settings = map[string]string{"sql_mode": strings.Repeat("A", 4001)} },
	} {
		in := testInput()
		change(&in)
		if _, err := Render(in); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// The second lock: were a hostile value let through all the same, the shell would still take it for what it is.
// The script's head, up to its first function, is really run.
func TestShellTakesHostileValuesAsText(t *testing.T) {
	names := []string{"member", "identity", "version", "places", "sha256", "volume", "token", "ca"}
	for _, value := range hostile() {
		if strings.ContainsRune(value, 0) {
			continue // no shell variable can hold it, and no lock lets it through
		}
		in := testInput()
		for _, set := range fields() {
			set(&in, value)
		}
		in.Download = Download{URL: value, SHA256: value}
		head, _, _ := strings.Cut(string(assemble(in)), "\nsay() {")
		dir := t.TempDir()
		program := head + "\nprintf '%s\\0'"
		for _, name := range names {
			program += ` "$` + name + `"`
		}
		path := filepath.Join(dir, "head.sh")
		if err := os.WriteFile(path, []byte(program+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", path)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		trimmed := strings.TrimSpace(value)
		want := strings.Join([]string{value, value + " " + value, value, value, value, value, value, trimmed, ""}, "\x00")
		if string(out) != want {
			t.Errorf("%q reached the shell as %q", value, out)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("%q did something: %v, %v", value, files, err)
		}
	}
}

func TestSQLQuoteKeepsTextInside(t *testing.T) {
	for text, want := range map[string]string{
		"/O=x/CN=y": "'/O=x/CN=y'",
		"a'b":       "'a''b'",
		`a\`:        `'a\\'`,
		`\'; DROP`:  `'\\''; DROP'`,
	} {
		if got := sqlQuote(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
