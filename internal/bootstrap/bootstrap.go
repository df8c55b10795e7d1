// Package bootstrap renders the user data of a member's instance: one shell script that installs itself and its systemd
// units, which mount the data volume, bring mysqld up on it, and ask for a certificate.
package bootstrap

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/releasekeys"
)

// Places on an instance. The script has them as literals; TestScriptUsesTheSamePaths holds the two together.
const (
	// ConfigDir is on the root disk: it holds the member's identity, which is never on the data volume.
	ConfigDir = "/etc/nairobi-mysql"
	// TLSDir holds ca.pem, member.key and current.pem. Only root may write there.
	TLSDir = ConfigDir + "/tls"
	// ExchangeDir is mysqld's secure_file_priv: all that the operator can read and write there over SQL.
	ExchangeDir = ConfigDir + "/exchange"
	// DataRoot is where the data volume is mounted.
	DataRoot = "/var/lib/nairobi-mysql"
	// DataDir is mysqld's data directory.
	DataDir = DataRoot + "/data"
	// SocketDir holds mysqld's socket and process id.
	SocketDir = "/run/mysqld"
)

const (
	// MaxUserDataSize is EC2's limit on user data in bytes, before it is encoded in base64 (RunInstances, API reference).
	MaxUserDataSize = 16384

	// membersPerIncarnation is how many server_ids one incarnation has room for: spec.replicas is at most 9.
	membersPerIncarnation = 16

	// defaultMemoryMax leaves a part of the machine to its system, so that a mysqld that grows too large is ended and
	// started again, rather than the whole machine standing still.
	defaultMemoryMax = "90%"
)

// ErrTooLarge: the user data does not fit into what EC2 takes.
var ErrTooLarge = errors.New("user data is larger than the 16384 bytes that EC2 takes: " +
	"shorten spec.mysqld, leaving out what equals MySQL's default")

//go:embed bootstrap.sh
var script string

// Download says where an instance gets MySQL from if its image has none of the version, and how it verifies that. Its zero value
// is MySQL's own site, but without keys it verifies nothing, so the instance installs nothing.
type Download struct {
	// URL is the address of the tarball. Empty: it goes by the version and the instance's architecture, below Mirror.
	URL string
	// Mirror begins the addresses on a site with the layout of MySQL's. Empty: MySQL's own.
	Mirror string
	// SHA256 of the tarball, in lower-case hexadecimal. Empty: its signature is verified by Keys.
	SHA256 string
	Keys   releasekeys.Keyring
}

// Input is what an instance is told of its member. All of it may be public, but for the one-time join token.
type Input struct {
	ClusterUID, Namespace, Cluster string
	// Member is the member's name, for example orders-0; Ordinal its number, 0 to 15.
	Member  string
	Ordinal int
	// Incarnation counts the instances that the member has had, from 1 on.
	Incarnation int
	// VolumeIncarnation counts the data volumes that the member has had, from 1 on. server_id goes by it: a source counts
	// acknowledgements by server_id, and another machine with the same disk must not count a second time. A copy of an older
	// state is another volume, which would skip its own events under the same server_id.
	VolumeIncarnation int
	// Version of MySQL, x.y.z. An image that holds a mysqld of exactly this version needs no download.
	Version  string
	Download Download
	// VolumeID is the id of the member's data volume, vol-….
	VolumeID string
	// CAPEM is the certificate of the cluster's authority.
	CAPEM []byte
	// JoinToken seals the member's request for a certificate: 64 hexadecimal digits.
	JoinToken string
	// IssuerDN and OperatorDN are the subjects of the authority and of the operator in MySQL's one-line form.
	IssuerDN, OperatorDN string
	// Settings are those of the spec as it is at launch. What package settings does not take is refused.
	Settings map[string]string
	// MemoryMax is systemd's MemoryMax= for mysqld, for example 90% or 1G. Empty: 90%.
	MemoryMax string
}

// ServerID returns the server_id of a member. It differs from one incarnation of its volume to the next, because a server that comes
// back from an older copy of itself silently skips events that carry its own id (MYSQL-FACTS 16).
func ServerID(ordinal, incarnation int) uint32 {
	return uint32(incarnation*membersPerIncarnation + ordinal + 1)
}

// Render returns the user data of a member's instance. The same input always gives the same bytes, as EC2 demands of a
// call that is repeated with its client token. The error wraps ErrTooLarge, or names the field that is not acceptable.
func Render(in Input) ([]byte, error) {
	if err := in.validate(); err != nil {
		return nil, fmt.Errorf("render user data of %q: %w", in.Member, err)
	}
	userData := assemble(in)
	if len(userData) > MaxUserDataSize {
		// cloud-init takes compressed user data as well. What fits is left plain, because people can read it.
		userData = compress(userData)
	}
	if len(userData) > MaxUserDataSize {
		return nil, fmt.Errorf("render user data of %q (%d bytes): %w", in.Member, len(userData), ErrTooLarge)
	}
	return userData, nil
}

// compress returns text in gzip's format, without a time or a name, so that equal texts stay equal.
func compress(text []byte) []byte {
	var b bytes.Buffer
	// Neither call can fail: the level is a constant of the package, and a buffer takes everything.
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w.Write(text) //nolint:errcheck // see above
	w.Close()
	return b.Bytes()
}

// assemble fills the script's marked lines. It trusts its input.
func assemble(in Input) []byte {
	memory := in.MemoryMax
	if memory == "" {
		memory = defaultMemoryMax
	}
	fill := map[string]string{
		"#@values": values(in),
		"#@config": RenderConfig(in),
		"#@init":   RenderInitSQL(in),
		"#@launch": RenderLaunchSettings(in),
	}
	var b bytes.Buffer
	for n, line := range strings.Split(script, "\n") {
		line = strings.TrimLeft(line, "\t")
		text, marked := fill[line]
		switch {
		case marked:
			b.WriteString(text)
		case line == "" || strings.HasPrefix(line, "#") && n > 0:
		default:
			b.WriteString(strings.Replace(line, "#@memory", memory, 1) + "\n")
		}
	}
	return b.Bytes()
}

// values returns the script's variables as assignments.
func values(in Input) string {
	d := in.Download
	if d.SHA256 != "" {
		d.Keys = releasekeys.Keyring{}
	}
	var b strings.Builder
	for _, v := range []struct{ name, value string }{
		{"member", in.Member},
		{"identity", in.ClusterUID + " " + in.Member},
		{"version", in.Version},
		{"places", strings.Join(Places(in.Version, d), " ")},
		{"sha256", d.SHA256},
		{"keys", base64.StdEncoding.EncodeToString(d.Keys.Packets)},
		{"expiries", expiries(d.Keys)},
		{"volume", in.VolumeID},
		{"token", in.JoinToken},
		{"ca", strings.TrimSpace(string(in.CAPEM))},
	} {
		b.WriteString(v.name + "=" + shellQuote(v.value) + "\n")
	}
	return b.String()
}

// expiries returns each key that expires as fingerprint=time, in seconds since 1970.
func expiries(ring releasekeys.Keyring) string {
	var words []string
	for _, key := range ring.Keys {
		if !key.Expires.IsZero() {
			words = append(words, fmt.Sprintf("%s=%d", key.Fingerprint, key.Expires.Unix()))
		}
	}
	return strings.Join(words, " ")
}

// mysqlSite is where MySQL's own tarballs are.
const mysqlSite = "https://cdn.mysql.com"

// currentDownload is the address of a current release on MySQL's site.
var currentDownload = regexp.MustCompile(`^(https://(?:cdn|dev)[.]mysql[.]com(?:/get)?/)Downloads/MySQL-([0-9.]+/[^/]+)$`)

// Places returns the addresses at which the tarball of a version may be. MySQL's site, and a mirror of it, moves a release to its archives when the
// next patch release is out, and members download at every launch. The script puts the architecture in the place of {arch}.
func Places(version string, d Download) []string {
	if d.URL != "" {
		all := []string{d.URL}
		if currentDownload.MatchString(d.URL) {
			all = append(all, currentDownload.ReplaceAllString(d.URL, "${1}archives/mysql-${2}"))
		}
		return all
	}
	site := strings.TrimSuffix(cmp.Or(d.Mirror, mysqlSite), "/")
	series, name := version[:strings.LastIndexByte(version, '.')], "mysql-"+version+"-linux-glibc2.28-{arch}.tar.xz"
	return []string{site + "/Downloads/MySQL-" + series + "/" + name, site + "/archives/mysql-" + series + "/" + name}
}

// tarballNames are EC2's names of architectures, and what the names of MySQL's tarballs have for them: the script goes by the same.
var tarballNames = map[string]string{"x86_64": "x86_64-minimal", "arm64": "aarch64"}

// Architectures are those for which MySQL has tarballs, by EC2's names.
func Architectures() []string { return slices.Sorted(maps.Keys(tarballNames)) }

// Addresses returns the Places for instances of an architecture, by EC2's name of it.
func Addresses(version string, d Download, architecture string) []string {
	all := Places(version, d)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "{arch}", cmp.Or(tarballNames[architecture], architecture))
	}
	return all
}

// shellQuote returns text as one word of a POSIX shell in which nothing is special.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
