package bootstrap

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/alx-ke/nairobi-mysql-operator/internal/releasekeys"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/archive"
)

// site is MySQL's download site as an instance sees it: HTTPS, files, signatures by a key of the test's own.
type site struct {
	*archive.Archive
	t       *testing.T
	server  *httptest.Server
	ca      string // path of its certificate
	key     string
	tarball []byte

	mu   sync.Mutex
	asks []string
}

// asked returns what was asked for since the last call.
func (s *site) asked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asks := strings.Join(s.asks, " ")
	s.asks = nil
	return asks
}

func newSite(t *testing.T) *site {
	t.Helper()
	a, err := archive.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Archive: a, t: t}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	files := a.Handler()
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asks = append(s.asks, strings.TrimPrefix(r.URL.Path, "/"))
		s.mu.Unlock()
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(s.server.Close)
	s.ca = filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	if err := os.WriteFile(s.ca, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	s.key = s.newKey("release", 0, "")
	tree := t.TempDir()
	if err := os.MkdirAll(filepath.Join(tree, "mysql/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "mysql/bin/mysqld"), []byte(stubMySQLD), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if s.tarball, err = exec.CommandContext(t.Context(), "tar", "-cJf", "-", "-C", tree, "mysql").Output(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) newKey(name string, days int, born string) string {
	s.t.Helper()
	fingerprint, err := s.Key(s.t.Context(), name, days, born)
	if err != nil {
		s.t.Fatal(err)
	}
	return fingerprint
}

// put stores the tarball, signed by a key.
func (s *site) put(path, key, signed string) {
	s.t.Helper()
	if err := s.Put(s.t.Context(), path, s.tarball, key, signed); err != nil {
		s.t.Fatal(err)
	}
}

// change edits a file of the site.
func (s *site) change(path string, edit func([]byte) []byte) {
	s.t.Helper()
	file := filepath.Join(s.Dir, path)
	content, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, edit(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// remove takes a file from the site.
func (s *site) remove(path string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.Dir, path)); err != nil {
		s.t.Fatal(err)
	}
}

// trust returns the keyring of some of the keys.
func (s *site) trust(keys ...string) releasekeys.Keyring {
	s.t.Helper()
	armored, err := s.PublicKeys(s.t.Context(), keys...)
	if err != nil {
		s.t.Fatal(err)
	}
	ring, err := releasekeys.Parse(armored)
	if err != nil {
		s.t.Fatal(err)
	}
	return ring
}

// newInstance returns an instance whose image has no mysqld, and which trusts the site's key.
func (s *site) newInstance(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	if err := os.RemoveAll(m.path("/opt/mysql-9.7.4")); err != nil {
		t.Fatal(err)
	}
	m.input.Download = Download{Mirror: s.server.URL, Keys: s.trust(s.key)}
	return m
}

// boot runs what comes before the start of mysqld, with one of the programs that verify signatures, and says whether mysqld would be
// started then.
func (s *site) boot(m *machine, verifier string) (out string, starts bool) {
	m.t.Helper()
	out, ok := m.run(only(verifier)+"dnf() { return 1; }; apt-get() { return 1; }; prepare", "CURL_CA_BUNDLE="+s.ca)
	starts = strings.Contains(m.read("/run/nairobi-mysql/serve"), "/opt/mysql-9.7.4/bin/mysqld")
	if ok != starts {
		m.t.Errorf("succeeded: %t, and mysqld is started: %t", ok, starts)
	}
	return out, starts
}

// verifiers are the programs that verify signatures, in the order in which an instance looks for them.
var verifiers = []string{"gpgv", "gpg", "sqv"}

// only hides the other programs from the script, which looks for them by command -v.
func only(verifier string) string {
	var hide []string
	for _, other := range verifiers {
		if other != verifier {
			hide = append(hide, other)
		}
	}
	return "command() { case $2 in " + strings.Join(hide, " | ") + ") [ \"$1\" != -v ] || return 1 ;; esac; builtin command \"$@\"; }\n"
}

// TestMySQLIsInstalledByItsVersion: with nothing but the version, an instance finds the tarball on a site with MySQL's layout, and
// starts mysqld from it only if the signature is by a key that is trusted and has not expired.
func TestMySQLIsInstalledByItsVersion(t *testing.T) {
	current, archived := archive.Current("9.7.4"), archive.Archived("9.7.4")
	flip := func(content []byte) []byte {
		content[len(content)/2] ^= 1
		return content
	}
	s := newSite(t)
	stranger, expired := s.newKey("stranger", 0, ""), s.newKey("expired", 30, "20200101")
	for name, tc := range map[string]struct {
		fill  func()
		keys  []string // trusted
		asked string   // empty: not looked at
		want  string   // of the failure; empty: mysqld is started
	}{
		"at the current place": {
			fill: func() { s.put(current, s.key, "") }, asked: current + ".asc " + current,
		},
		"moved to the archives": {
			fill: func() { s.put(archived, s.key, "") }, asked: current + ".asc " + archived + ".asc " + archived,
		},
		"at neither place": {
			fill: func() {}, asked: current + ".asc " + archived + ".asc",
			want: "cannot install MySQL 9.7.4: SITE/" + current + ".asc: HTTP 404; SITE/" + archived + ".asc: HTTP 404",
		},
		"a signature without its tarball": {
			fill: func() { s.put(current, s.key, ""); s.remove(current) },
			want: "SITE/" + current + ": HTTP 404; SITE/" + archived + ".asc: HTTP 404",
		},
		"a flipped byte": {
			fill: func() { s.put(current, s.key, ""); s.change(current, flip) },
			want: "SITE/" + current + ": does not match its signature; ",
		},
		"a flipped byte, and whole in the archives": {
			fill: func() { s.put(current, s.key, ""); s.change(current, flip); s.put(archived, s.key, "") },
		},
		"the signature of another file": {
			fill: func() {
				s.put(archived, s.key, "")
				s.put(current, s.key, "")
				s.change(archived, func([]byte) []byte { return []byte("other") })
				s.change(current, func([]byte) []byte { return []byte("another") })
			},
			want: "does not match its signature; SITE/" + archived + ": does not match its signature",
		},
		"an unknown key": {
			fill: func() { s.put(current, stranger, "") }, want: "SITE/" + current + ": signed by the unknown key ",
		},
		"an expired key": {
			fill: func() { s.put(current, expired, "20200102") }, keys: []string{s.key, expired}, want: "that signed it has expired",
		},
		"a signature of nonsense": {
			fill: func() {
				s.put(current, s.key, "")
				s.change(current+".asc", func([]byte) []byte { return []byte("<html>") })
			},
			want: "SITE/" + current + ".asc: no valid signature",
		},
		"a text that the key signed in place of a signature": {
			fill: func() {
				s.put(current, s.key, "")
				s.change(current+".asc", func([]byte) []byte { return s.inline(s.key) })
				s.change(current, func([]byte) []byte { return []byte("evil") })
			},
			want: "SITE/" + current,
		},
		"a stranger who calls himself a good signature": {
			fill: func() {
				s.put(current, stranger, "")
				s.change(current+".asc", func([]byte) []byte { return s.signedBy("GOODSIG 0123456789ABCDEF") })
			},
			want: "SITE/" + current + ": signed by the unknown key ",
		},
		"a later key beside the old one": {
			fill: func() { s.put(current, stranger, "") }, keys: []string{s.key, stranger},
		},
	} {
		for _, verifier := range verifiers {
			t.Run(name+" by "+verifier, func(t *testing.T) {
				if err := os.RemoveAll(filepath.Join(s.Dir, "Downloads")); err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(filepath.Join(s.Dir, "archives")); err != nil {
					t.Fatal(err)
				}
				tc.fill()
				m := s.newInstance(t)
				if tc.keys != nil {
					m.input.Download.Keys = s.trust(tc.keys...)
				}
				out, starts := s.boot(m, verifier)
				want := strings.ReplaceAll(tc.want, "SITE", s.server.URL)
				if starts != (tc.want == "") || !strings.Contains(out, want) {
					t.Errorf("mysqld is started: %t\n%s\nwant %s", starts, out, want)
				}
				if asked := s.asked(); tc.asked != "" && asked != tc.asked {
					t.Errorf("asked for %s, want %s", asked, tc.asked)
				}
				if stage := ReadConsole(out).Stage; tc.want != "" && (!strings.HasPrefix(stage, "failed: cannot install MySQL 9.7.4: ") || len(stage) == maxStageLength) {
					t.Errorf("the stage is %q", stage)
				}
			})
		}
	}
}

// inline returns a text that a key signed as a whole, as repositories have.
func (s *site) inline(key string) []byte {
	s.t.Helper()
	text, err := s.Clearsign(s.t.Context(), []byte("Origin: MySQL\n"), key)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// signedBy returns a signature of the tarball by a stranger, with a name in it that gpg would not write.
func (s *site) signedBy(name string) []byte {
	s.t.Helper()
	stranger, err := openpgp.NewEntity("stranger", "", "stranger@example.com", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	key := stranger.PrivateKey
	signature := &packet.Signature{Version: key.Version, SigType: packet.SigTypeBinary, PubKeyAlgo: key.PubKeyAlgo, Hash: crypto.SHA256,
		CreationTime: key.CreationTime, IssuerKeyId: &key.KeyId, SignerUserId: &name}
	hash := crypto.SHA256.New()
	hash.Write(s.tarball)
	if err := signature.Sign(hash, key, nil); err != nil {
		s.t.Fatal(err)
	}
	var text bytes.Buffer
	armored, err := armor.Encode(&text, openpgp.SignatureType, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(signature.Serialize(armored), armored.Close()); err != nil {
		s.t.Fatal(err)
	}
	return text.Bytes()
}

// An image that can verify no signature installs nothing, and says so before it downloads.
func TestAnImageThatVerifiesNoSignature(t *testing.T) {
	s := newSite(t)
	s.put(archive.Current("9.7.4"), s.key, "")
	m := s.newInstance(t)
	out, starts := s.boot(m, "none")
	if asked := s.asked(); starts || !strings.Contains(out, "failed: the image has no gpgv, and the package gpgv cannot be installed") || asked != "" {
		t.Errorf("mysqld is started: %t, asked for %s\n%s", starts, asked, out)
	}
	m.input.Download = Download{URL: s.server.URL + "/" + archive.Current("9.7.4"), SHA256: fmt.Sprintf("%x", sha256.Sum256(s.tarball)), Keys: m.input.Download.Keys}
	if out, starts := s.boot(m, "none"); !starts {
		t.Errorf("a checksum needs no such program:\n%s", out)
	}
}

// A tarball at an address of the spec's own is verified by the checksum, or without one by its signature. A second start downloads
// nothing.
func TestAddressOfTheSpec(t *testing.T) {
	s := newSite(t)
	s.put("own/mysql.tar.xz", s.key, "")
	right := fmt.Sprintf("%x", sha256.Sum256(s.tarball))
	for name, tc := range map[string]struct {
		download Download
		asked    string
		want     string
	}{
		"a checksum":       {Download{SHA256: right}, "own/mysql.tar.xz", ""},
		"a wrong checksum": {Download{SHA256: strings.Repeat("0a", 32), Keys: s.trust(s.key)}, "own/mysql.tar.xz", "SITE/own/mysql.tar.xz: the checksum is not that of spec.aws.download"},
		"a signature":      {Download{Keys: s.trust(s.key)}, "own/mysql.tar.xz.asc own/mysql.tar.xz", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := s.newInstance(t)
			m.input.Download = tc.download
			m.input.Download.URL = s.server.URL + "/own/mysql.tar.xz"
			out, starts := s.boot(m, "gpgv")
			if asked := s.asked(); starts != (tc.want == "") || !strings.Contains(out, strings.ReplaceAll(tc.want, "SITE", s.server.URL)) || asked != tc.asked {
				t.Fatalf("mysqld is started: %t, asked for %s\n%s", starts, asked, out)
			}
			if !starts {
				return
			}
			out, _ = s.boot(m, "gpgv")
			if asked := s.asked(); strings.Contains(out, "download") || asked != "" {
				t.Errorf("a second start downloads again: %s\n%s", asked, out)
			}
		})
	}
}

// A server that is signed, and is of another version, is not the one that was asked for.
func TestASignedTarballOfAnotherVersion(t *testing.T) {
	s := newSite(t)
	s.put(archive.Current("9.7.4"), s.key, "")
	m := s.newInstance(t)
	out, ok := m.run("dnf() { return 1; }; apt-get() { return 1; }; prepare", "CURL_CA_BUNDLE="+s.ca, "STUB_VERSION=9.7.3")
	if ok || !strings.Contains(out, "the tarball does not hold a mysqld 9.7.4 that runs here") {
		t.Errorf("succeeded: %t\n%s", ok, out)
	}
}

func TestPlaces(t *testing.T) {
	for name, tc := range map[string]struct {
		download Download
		want     string
	}{
		"MySQL's own site": {Download{}, "https://cdn.mysql.com/Downloads/MySQL-8.4/mysql-8.4.6-linux-glibc2.28-{arch}.tar.xz " +
			"https://cdn.mysql.com/archives/mysql-8.4/mysql-8.4.6-linux-glibc2.28-{arch}.tar.xz"},
		"a mirror": {Download{Mirror: "https://mirror.example/mysql/"}, "https://mirror.example/mysql/Downloads/MySQL-8.4/mysql-8.4.6-linux-glibc2.28-{arch}.tar.xz " +
			"https://mirror.example/mysql/archives/mysql-8.4/mysql-8.4.6-linux-glibc2.28-{arch}.tar.xz"},
		"an address on MySQL's site": {Download{URL: "https://cdn.mysql.com/Downloads/MySQL-8.4/m.tar.xz"},
			"https://cdn.mysql.com/Downloads/MySQL-8.4/m.tar.xz https://cdn.mysql.com/archives/mysql-8.4/m.tar.xz"},
		"another way to it": {Download{URL: "https://dev.mysql.com/get/Downloads/MySQL-9.7/m.tar.xz"},
			"https://dev.mysql.com/get/Downloads/MySQL-9.7/m.tar.xz https://dev.mysql.com/get/archives/mysql-9.7/m.tar.xz"},
		"an address in the archives": {Download{URL: "https://cdn.mysql.com/archives/mysql-8.4/m.tar.xz"}, "https://cdn.mysql.com/archives/mysql-8.4/m.tar.xz"},
		"another product":            {Download{URL: "https://cdn.mysql.com/Downloads/MySQL-Shell/m.tar.xz"}, "https://cdn.mysql.com/Downloads/MySQL-Shell/m.tar.xz"},
		"a name like MySQL's":        {Download{URL: "https://cdn.mysql.com.example/Downloads/MySQL-8.4/m.tar.xz"}, "https://cdn.mysql.com.example/Downloads/MySQL-8.4/m.tar.xz"},
		"an address elsewhere":       {Download{URL: "https://mirror.example/Downloads/MySQL-8.4/m.tar.xz"}, "https://mirror.example/Downloads/MySQL-8.4/m.tar.xz"},
	} {
		if got := strings.Join(Places("8.4.6", tc.download), " "); got != tc.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// MySQL has a minimal build for x86_64 and none for aarch64. Those who ask whether the tarball is there ask for the same one as the script.
func TestTarballOfTheArchitecture(t *testing.T) {
	for _, row := range []struct{ kernel, ec2, name string }{{"x86_64", "x86_64", "x86_64-minimal"}, {"aarch64", "arm64", "aarch64"}} {
		m := newMachine(t)
		m.input.Download = Download{Keys: releasekeys.MySQL()}
		out, _ := m.run("uname() { echo " + row.kernel + "; }; curl() { return 6; }; fetch /nowhere/tarball")
		if want := "https://cdn.mysql.com/Downloads/MySQL-9.7/mysql-9.7.4-linux-glibc2.28-" + row.name + ".tar.xz.asc: curl's error 6; https://cdn.mysql.com/archives/"; !strings.Contains(out, want) {
			t.Errorf("%s:\n%s", row.kernel, out)
		}
		for _, address := range Addresses("9.7.4", Download{}, row.ec2) {
			if !strings.Contains(out, address+".asc: curl's error 6") {
				t.Errorf("%s: the script does not ask for %s:\n%s", row.ec2, address, out)
			}
		}
	}
}

// A mirror that hack/mirror-mysql.sh fills has the layout in which an instance looks, and what does not match its signature never gets there.
func TestAMirrorIsFilledByTheScript(t *testing.T) {
	s := newSite(t)
	keys, err := s.PublicKeys(t.Context(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := filepath.Join(t.TempDir(), "keys.asc")
	if err := os.WriteFile(trusted, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	// The AWS CLI's part is to copy files below a bucket's address.
	bucket, path := t.TempDir(), t.TempDir()
	cli := "#!/bin/bash\n[ \"$1 $2 $3\" = 's3 cp --only-show-errors' ] || exit 2\nto=\"" + bucket + "/${5#s3://}\"; mkdir -p \"${to%/*}\"; cp \"$4\" \"$to\"\n"
	if err := os.WriteFile(filepath.Join(path, "aws"), []byte(cli), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	architecture := "x86_64"
	if runtime.GOARCH == "arm64" {
		architecture = "aarch64"
	}
	mirror := func(destination string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "../../hack/mirror-mysql.sh", "9.7.4", architecture, destination)
		cmd.Env = append(os.Environ(), "MYSQL_SITE="+s.server.URL, "MYSQL_KEYS="+trusted, "CURL_CA_BUNDLE="+s.ca, "PATH="+path+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	for _, refused := range []struct {
		words string
		fill  func()
	}{
		{"neither in Downloads/MySQL-9.7 nor in archives/mysql-9.7", func() {}},
		{"is not a good one", func() {
			s.put(archive.Archived("9.7.4"), s.key, "")
			s.change(archive.Archived("9.7.4"), func([]byte) []byte { return []byte("evil") })
		}},
	} {
		refused.fill()
		if out, err := mirror("s3://bucket/mysql"); err == nil || !strings.Contains(out, refused.words) {
			t.Errorf("%s: %v\n%s", refused.words, err, out)
		}
		if files, err := os.ReadDir(bucket); err != nil || len(files) > 0 {
			t.Fatalf("the mirror has %v, %v", files, err)
		}
	}

	s.put(archive.Archived("9.7.4"), s.key, "")
	for destination, folder := range map[string]string{"s3://bucket/mysql/": filepath.Join(bucket, "bucket/mysql"), filepath.Join(path, "www"): filepath.Join(path, "www")} {
		if out, err := mirror(destination); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		server := httptest.NewServer(http.FileServer(http.Dir(folder)))
		t.Cleanup(server.Close)
		m := s.newInstance(t)
		m.input.Download.Mirror = server.URL
		if out, starts := s.boot(m, "gpgv"); !starts {
			t.Errorf("not installed from %s:\n%s", destination, out)
		}
	}
}
