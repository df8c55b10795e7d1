package bootstrap

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// maxConfigLine is the length in bytes at which mysqld cuts off a line of an option file, less the longest name.
const maxConfigLine = 4000

var (
	uidPattern     = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)
	labelPattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	versionPattern = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,3}$`)
	volumePattern  = regexp.MustCompile(`^vol-[0-9a-f]{8,17}$`)
	hashPattern    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	dnPattern      = regexp.MustCompile(`^(/(O|OU|CN)=[0-9A-Za-z.-]{1,64})+$`)
	urlPattern     = regexp.MustCompile(`^https?://[0-9A-Za-z._~:/%+@=-]+$`)
	memoryPattern  = regexp.MustCompile(`^([0-9]{1,2}%|100%|[0-9]{1,15}[KMGT]?)?$`)
	settingPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{1,63}(\.[a-z0-9_]{1,63})?$`)
	valuePattern   = regexp.MustCompile(`^[A-Za-z0-9_.,:=+*/%@ -]*$`)
)

// validate is the second lock. The API server has checked the specification already, and every value is quoted where it
// is used; a value that gets as far as here and does not look like what it is has no business on an instance.
func (in Input) validate() error {
	for _, field := range []struct {
		name, value string
		pattern     *regexp.Regexp
	}{
		{"cluster UID", in.ClusterUID, uidPattern},
		{"namespace", in.Namespace, labelPattern},
		{"cluster", in.Cluster, labelPattern},
		{"member", in.Member, labelPattern},
		{"version", in.Version, versionPattern},
		{"volume id", in.VolumeID, volumePattern},
		{"issuer", in.IssuerDN, dnPattern},
		{"operator's subject", in.OperatorDN, dnPattern},
		{"memory limit", in.MemoryMax, memoryPattern},
	} {
		if !field.pattern.MatchString(field.value) {
			return fmt.Errorf("%s %q is not acceptable", field.name, field.value)
		}
	}
	if !hashPattern.MatchString(in.JoinToken) {
		return errors.New("the join token is not 64 lower-case hexadecimal digits")
	}
	if in.Ordinal < 0 || in.Ordinal >= membersPerIncarnation || in.Incarnation < 1 || in.VolumeIncarnation < 1 {
		return fmt.Errorf("ordinal %d or incarnation %d or %d is out of range", in.Ordinal, in.Incarnation, in.VolumeIncarnation)
	}
	if err := in.Download.validate(); err != nil {
		return err
	}
	if err := validateCertificate(in.CAPEM); err != nil {
		return err
	}
	return validateSettings(in.Settings)
}

func (d Download) validate() error {
	for _, address := range []string{d.URL, d.Mirror} {
		if address != "" && (!urlPattern.MatchString(address) || v1alpha1.ClimbingURL(address)) {
			return fmt.Errorf("download from %q is not acceptable", address)
		}
	}
	if d.URL != "" && d.Mirror != "" {
		return fmt.Errorf("download from %q as well as from the mirror %q is not acceptable", d.URL, d.Mirror)
	}
	if d.SHA256 != "" && !hashPattern.MatchString(d.SHA256) {
		return fmt.Errorf("SHA-256 %q is not acceptable", d.SHA256)
	}
	if d.SHA256 == "" && len(d.Keys.Packets) == 0 {
		return errors.New("a download can be verified neither by a SHA-256 nor by keys")
	}
	return nil
}

// validateCertificate wants exactly one certificate, in the form in which Go writes it.
func validateCertificate(text []byte) error {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" || len(rest) > 0 || !bytes.Equal(pem.EncodeToMemory(block), text) {
		return errors.New("the cluster CA's certificate is not one certificate in plain PEM form")
	}
	return nil
}

func validateSettings(spec map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		value := spec[name]
		if !settingPattern.MatchString(name) {
			return fmt.Errorf("setting %q is not the name of a system variable", name)
		}
		if !valuePattern.MatchString(value) || strings.TrimSpace(value) != value || len(value) > maxConfigLine {
			return fmt.Errorf("the value of setting %s is not acceptable", name)
		}
	}
	return nil
}
