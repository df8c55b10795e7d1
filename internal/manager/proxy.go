package manager

import (
	"net/url"
	"strings"

	"github.com/go-logr/logr"

	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// proxy are the variables of the HTTP proxy that the operator goes through, for the backup pods, which reach their bucket by the
// same way. One with a password in it stays here: whoever may read pods in a tenant's namespace would read it.
func proxy(getenv func(string) string, log logr.Logger) map[string]string {
	found := map[string]string{}
	for _, name := range resources.ProxyVariables {
		value := getenv(name)
		if value == "" {
			value = getenv(strings.ToLower(name))
		}
		if value == "" {
			continue
		}
		if name != noProxy && hasPassword(value) {
			log.Info("the backup pods are not told of the proxy, because there is a password in its address", "variable", name)
			continue
		}
		found[name] = value
	}
	return found
}

// noProxy lists what is reached without a proxy.
const noProxy = "NO_PROXY"

// hasPassword says whether a proxy's address names who uses it. What cannot be read may.
func hasPassword(address string) bool {
	if !strings.Contains(address, "://") {
		address = "http://" + address // as Go reads it
	}
	u, err := url.Parse(address)
	return err != nil || u.User != nil
}
