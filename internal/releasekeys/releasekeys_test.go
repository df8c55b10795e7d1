package releasekeys

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// gpg runs the real program in a home of the test's own.
func gpg(t *testing.T, home, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "gpg", append([]string{"--homedir", home, "--batch", "--quiet", "--passphrase", ""}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &wrong
	if err := cmd.Run(); err != nil {
		t.Fatalf("gpg %s: %v\n%s", strings.Join(args, " "), err, wrong.String())
	}
	return out.String()
}

// newHome returns a home for gpg, below a path that is short enough for the socket of its agent.
func newHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() //nolint:errcheck // the agent ends with its home as well
		os.RemoveAll(home)
	})
	return home
}

// MySQL publishes this fingerprint in the manual, "Signature Checking Using GnuPG".
func TestTheEmbeddedKeyIsMySQLs(t *testing.T) {
	ring := MySQL()
	want := Key{Fingerprint: "BCA43417C3B485DD128EC6D4B7B3B788A8D3785C", Expires: time.Date(2027, 10, 23, 17, 27, 22, 0, time.UTC)}
	if len(ring.Keys) != 1 || ring.Keys[0].Fingerprint != want.Fingerprint || ring.Keys[0].Expires.Format(time.DateOnly) != want.Expires.Format(time.DateOnly) {
		t.Fatalf("the keys are %v, want %v", ring.Keys, want)
	}
	// What is sent to instances is a key whose self-signature another implementation finds good.
	home := newHome(t)
	gpg(t, home, string(ring.Packets), "--import")
	listed := gpg(t, home, "", "--with-colons", "--check-sigs")
	if strings.Count(listed, "\nsig:!:") != 1 || !strings.Contains(listed, "fpr:::::::::"+want.Fingerprint+":") {
		t.Errorf("gpg lists\n%s", listed)
	}
	if len(ring.Packets) > 1300 {
		t.Errorf("the keyring has %d bytes, and is part of every user data", len(ring.Packets))
	}
	for at, want := range map[string]struct{ expiring, expired bool }{
		"2026-01-01": {}, "2027-07-24": {}, "2027-07-26": {expiring: true}, "2027-10-22": {expiring: true}, "2027-10-24": {expired: true},
	} {
		now, err := time.Parse(time.DateOnly, at)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := ring.Expired(now); got != want.expired {
			t.Errorf("on %s the key is expired: %t", at, got)
		}
		if end, got := ring.Expiring(now); got != want.expiring || got && end.Format(time.DateOnly) != "2027-10-23" {
			t.Errorf("on %s the key is about to expire on %s: %t", at, end, got)
		}
	}
}

func TestParse(t *testing.T) {
	home := newHome(t)
	gpg(t, home, "", "--quick-generate-key", "first@example.com", "rsa2048", "sign", "never")
	gpg(t, home, "", "--quick-generate-key", "second@example.com", "rsa2048", "sign", "2d")
	first, second := gpg(t, home, "", "--armor", "--export", "first@example.com"), gpg(t, home, "", "--armor", "--export", "second@example.com")
	both := gpg(t, home, "", "--armor", "--export")
	private := gpg(t, home, "", "--pinentry-mode", "loopback", "--armor", "--export-secret-keys", "first@example.com")
	tampered := []byte(first)
	tampered[bytes.Index(tampered, []byte("\n\n"))+200] ^= 1
	for name, tc := range map[string]struct {
		text  string
		keys  int
		wrong string
	}{
		"one":                  {first, 1, ""},
		"two in one block":     {both, 2, ""},
		"two blocks":           {"the next key\n" + first + "\n# and the old one\n" + second, 2, ""},
		"nothing":              {"", 0, "no public key block"},
		"words":                {"BCA4 3417 C3B4 85DD", 0, "no public key block"},
		"a block that is cut":  {first[:400], 0, "no public key block"},
		"a block of nonsense":  {"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n" + base64.StdEncoding.EncodeToString([]byte("nonsense")) + "\n" + blockEnd, 0, "read a public key block"},
		"a flipped bit":        {string(tampered), 0, "read a public key block"},
		"the same again":       {first + first, 0, "twice"},
		"a private key":        {private + "\n" + blockEnd, 0, "is a private key"},
		"more than can be set": {many(t), 0, "at most 4096 fit"},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := Parse(tc.text)
			if len(ring.Keys) != tc.keys || (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Fatalf("%d keys, %v", len(ring.Keys), err)
			}
		})
	}
	ring, err := Parse(both)
	if err != nil {
		t.Fatal(err)
	}
	if _, expired := ring.Expired(time.Now().AddDate(1, 0, 0)); expired {
		t.Error("a ring with a key that never expires is taken for expired")
	}
	if _, expiring := ring.Expiring(time.Now()); expiring {
		t.Error("a ring with a key that never expires is taken for one that is about to")
	}

	// A signature is good by what was parsed.
	dir := t.TempDir()
	for path, content := range map[string]string{"ring": string(ring.Packets), "file": "content"} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gpg(t, home, "", "--local-user", "second@example.com", "--output", filepath.Join(dir, "sig"), "--detach-sign", filepath.Join(dir, "file"))
	if out, err := exec.CommandContext(t.Context(), "gpgv", "--homedir", dir, "--keyring", filepath.Join(dir, "ring"), filepath.Join(dir, "sig"), filepath.Join(dir, "file")).CombinedOutput(); err != nil {
		t.Errorf("gpgv: %v\n%s", err, out)
	}
}

// many returns more keys than a user data has room for.
func many(t *testing.T) string {
	t.Helper()
	other := newHome(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		gpg(t, other, "", "--quick-generate-key", name+strings.Repeat("x", 600)+"@example.com", "rsa2048", "sign", "never")
	}
	return gpg(t, other, "", "--armor", "--export")
}
