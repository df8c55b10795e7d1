package task

import (
	"errors"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

func TestValueOf(t *testing.T) {
	for _, row := range []struct{ content, value string }{
		{"AKIA", "AKIA"}, {"AKIA\n", "AKIA"}, {"AKIA\r\n", "AKIA"}, {"AKIA\n\n", "AKIA"}, {" s3cr\"et'/+= ", " s3cr\"et'/+= "}, {"two\nlines\n", "two\nlines"}, {"", ""}, {"\n", ""}, {"\r\n", ""},
	} {
		if got := ValueOf([]byte(row.content)); got != row.value {
			t.Errorf("%q says %q, not %q", row.content, got, row.value)
		}
	}
}

// TestKeysAreRead: which of them is missing, or cannot be one, is said by name.
func TestKeysAreRead(t *testing.T) {
	for name, row := range map[string]struct {
		data           map[string]string
		reason, broken string
	}{
		"two":                 {map[string]string{KeyAccessKeyID: "AKIA\n", KeySecretAccessKey: "s"}, "", ""},
		"three":               {map[string]string{KeyAccessKeyID: "AKIA", KeySecretAccessKey: "s", KeySessionToken: "t"}, "", ""},
		"none":                {nil, v1alpha1.ReasonCredentialsMissing, "has no key accessKeyID"},
		"half":                {map[string]string{KeyAccessKeyID: "AKIA", KeySecretAccessKey: "\n"}, v1alpha1.ReasonCredentialsMissing, "has no key secretAccessKey"},
		"a file":              {map[string]string{KeyAccessKeyID: "[default]\nid = AKIA", KeySecretAccessKey: "s"}, v1alpha1.ReasonCredentialsInvalid, "has in accessKeyID a space"},
		"a token with breaks": {map[string]string{KeyAccessKeyID: "AKIA", KeySecretAccessKey: "s", KeySessionToken: "a\nb"}, v1alpha1.ReasonCredentialsInvalid, "has in sessionToken a space"},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range row.data {
				data[key] = []byte(value)
			}
			keys, err := ReadKeys(data)
			broken := new(KeyError)
			if errors.As(err, &broken) != (row.reason != "") || row.reason != "" && (broken.Reason() != row.reason || !strings.HasPrefix(broken.Error(), row.broken)) {
				t.Errorf("it is %v, %s", err, broken.Reason())
			}
			if row.reason == "" && (keys.AccessKeyID != "AKIA" || keys.SecretAccessKey != "s") {
				t.Errorf("read are %+v", keys)
			}
		})
	}
}
