package cloud

import (
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

const (
	imdsMaxTTL = 21600 // seconds, EC2 user guide
	imdsTTL    = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	imdsToken  = "X-Aws-Ec2-Metadata-Token"
)

// metadata is the instance metadata service, version 2 only. It knows its
// callers by their address.
type metadata struct {
	// find returns the instance with an address.
	find func(address string) (moto.Instance, bool)

	mu     sync.Mutex
	tokens map[string]imdsSession
}

type imdsSession struct {
	address string
	expires time.Time
}

func (c *Cloud) startIMDS() (*http.Server, error) {
	listener, err := listenIn(fabricNS, imdsAddress+":80")
	if err != nil {
		return nil, err
	}
	return serve(listener, &metadata{find: c.machines.byAddress, tokens: map[string]imdsSession{}}), nil
}

func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	i, ok := m.find(address)
	if !ok {
		http.NotFound(w, r)
		return
	}
	path := strings.Trim(r.URL.Path, "/")
	if path == "latest/api/token" {
		m.issue(w, r, address)
		return
	}
	if !m.valid(r.Header.Get(imdsToken), address) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	version, rest, _ := strings.Cut(path, "/")
	switch {
	case version == "":
		write(w, "2021-03-23\nlatest")
	case rest == "":
		write(w, "dynamic\nmeta-data\nuser-data")
	case rest == "user-data" && len(i.UserData) > 0:
		_, _ = w.Write(i.UserData) // a client that has gone is no fault of ours
	case strings.HasPrefix(rest, "dynamic"):
		browse(w, r, map[string]string{"instance-identity/document": identity(i)}, strings.TrimPrefix(rest, "dynamic"))
	case strings.HasPrefix(rest, "meta-data"):
		browse(w, r, tree(i), strings.TrimPrefix(rest, "meta-data"))
	default:
		http.NotFound(w, r)
	}
}

// issue hands out a session token.
func (m *metadata) issue(w http.ResponseWriter, r *http.Request, address string) {
	ttl, err := strconv.Atoi(r.Header.Get(imdsTTL))
	switch {
	case r.Method != http.MethodPut:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Header.Get("X-Forwarded-For") != "":
		w.WriteHeader(http.StatusForbidden)
	case err != nil || ttl < 1 || ttl > imdsMaxTTL:
		w.WriteHeader(http.StatusBadRequest)
	default:
		token := rand.Text()
		m.mu.Lock()
		m.tokens[token] = imdsSession{address, time.Now().Add(time.Duration(ttl) * time.Second)}
		m.mu.Unlock()
		w.Header().Set(imdsTTL, strconv.Itoa(ttl))
		write(w, token)
	}
}

func (m *metadata) valid(token, address string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	session, ok := m.tokens[token]
	if ok && time.Now().After(session.expires) {
		delete(m.tokens, token)
		return false
	}
	return ok && session.address == address
}

func write(w http.ResponseWriter, text string) {
	_, _ = w.Write([]byte(text)) // a client that has gone is no fault of ours
}

// browse answers a path of the tree: a value, or the names below it.
func browse(w http.ResponseWriter, r *http.Request, values map[string]string, path string) {
	path = strings.Trim(path, "/")
	if v, ok := values[path]; ok {
		write(w, v)
		return
	}
	below := path + "/"
	if path == "" {
		below = ""
	}
	var names []string
	for key := range values {
		rest, ok := strings.CutPrefix(key, below)
		if !ok {
			continue
		}
		if head, _, deeper := strings.Cut(rest, "/"); deeper {
			rest = head + "/"
		}
		if !slices.Contains(names, rest) {
			names = append(names, rest)
		}
	}
	if len(names) == 0 {
		http.NotFound(w, r)
		return
	}
	slices.Sort(names)
	write(w, strings.Join(names, "\n"))
}

// tree is an instance's metadata by path.
func tree(i moto.Instance) map[string]string {
	values := map[string]string{
		"ami-id": i.Image, "ami-launch-index": "0", "instance-id": i.ID, "instance-type": i.Type,
		"instance-life-cycle": "on-demand", "local-ipv4": i.Address, "mac": i.MAC,
		"hostname": i.Hostname, "local-hostname": i.Hostname,
		"placement/availability-zone": i.Zone, "placement/region": i.Region,
		"reservation-id": "r-00000000000000000", "security-groups": strings.Join(i.Groups, "\n"),
		"services/domain": "amazonaws.com", "services/partition": "aws",
		"block-device-mapping/ami": i.RootDevice, "block-device-mapping/root": i.RootDevice,
	}
	nic := "network/interfaces/macs/" + i.MAC + "/"
	for key, value := range map[string]string{
		"device-number": "0", "interface-id": i.Interface, "local-hostname": i.Hostname, "local-ipv4s": i.Address,
		"mac": i.MAC, "owner-id": i.Account, "subnet-id": i.Subnet, "subnet-ipv4-cidr-block": i.SubnetCIDR,
		"vpc-id": i.VPC, "vpc-ipv4-cidr-block": moto.VPCCIDR,
	} {
		values[nic+key] = value
	}
	for key, value := range i.Tags {
		values["tags/instance/"+key] = value
	}
	return values
}

// identity is the instance identity document.
func identity(i moto.Instance) string {
	document, _ := json.Marshal(map[string]string{ // strings cannot fail
		"accountId": i.Account, "architecture": "x86_64", "availabilityZone": i.Zone, "imageId": i.Image,
		"instanceId": i.ID, "instanceType": i.Type, "privateIp": i.Address, "region": i.Region, "version": "2017-09-30",
	})
	return string(document)
}
