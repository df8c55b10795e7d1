package bench

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

const (
	region    = "us-east-1"
	vpcID     = "vpc-0a0a0a0a0a0a0a0a0"
	imageID   = "ami-0a0a0a0a0a0a0a0a0"
	launched  = "2026-01-01T00:00:00.000Z"
	accountID = "123456789012"
	ec2Schema = "http://ec2.amazonaws.com/doc/2016-11-15/"
	stsSchema = "https://sts.amazonaws.com/doc/2011-06-15/"
	xmlType   = "text/xml;charset=UTF-8"
)

// zones are the availability zones, and with them the subnets, of the stub's VPC.
var zones = []string{"us-east-1a", "us-east-1b", "us-east-1c"}

func subnetID(zone int) string { return fmt.Sprintf("subnet-0b0b0b0b0b0b0b0b%d", zone) }

func subnetIDs() []string {
	ids := make([]string, len(zones))
	for i := range zones {
		ids[i] = subnetID(i)
	}
	return ids
}

// Account is a stub of EC2: it answers the describe calls of a steady operator and refuses every other. It is a transport
// under the real SDK, or a server for it; either way requests are built, signed, counted and parsed as always. Its items
// have all the elements that EC2's have, because an operator pays for reading them.
type account struct {
	instances, volumes, groups []string // items in the XML of EC2's answers

	mu    sync.Mutex
	calls map[string]int // answered so far, by action
}

func newAccount() *account { return &account{calls: map[string]int{}} }

// add makes what a Ready member and its cluster look like in EC2: an instance, its data volume.
func (a *account) add(owner awsapi.Ownership, name, ip string, ordinal, serial int) (instanceID string) {
	instanceID, volumeID := fmt.Sprintf("i-%017x", serial), fmt.Sprintf("vol-%017x", serial)
	tags := []string{v1alpha1.TagMember, name, v1alpha1.TagIncarnation, "1", v1alpha1.TagName, owner.Namespace + "/" + name}
	fill := strings.NewReplacer(
		"{instance}", instanceID, "{volume}", volumeID, "{serial}", fmt.Sprintf("%017x", serial), "{image}", imageID, "{ip}", ip,
		"{host}", strings.ReplaceAll(ip, ".", "-"), "{subnet}", subnetID(ordinal%len(zones)), "{vpc}", vpcID,
		"{zone}", zones[ordinal%len(zones)], "{launched}", launched, "{tags}", tagSet(owner, tags...),
		"{version}", tagSet(owner, append(tags, v1alpha1.TagMySQLVersion, serverVersion)...))
	a.instances = append(a.instances, fill.Replace(instanceItem))
	a.volumes = append(a.volumes, fill.Replace(volumeItem))
	return instanceID
}

// addGroup makes a cluster's security group, with the rules that its spec asks for.
func (a *account) addGroup(owner awsapi.Ownership, cidr string, serial int) {
	id := fmt.Sprintf("sg-%017x", serial)
	a.groups = append(a.groups, `<item>`+
		elements("groupId", id, "groupName", ec2.GroupName(owner.ClusterUID), "vpcId", vpcID)+
		`<ipPermissions><item>`+elements("ipProtocol", "tcp", "fromPort", "3306", "toPort", "3306")+
		`<groups><item>`+elements("groupId", id)+`</item></groups><ipRanges><item>`+elements("cidrIp", cidr)+`</item></ipRanges>`+
		`</item></ipPermissions>`+tagSet(owner, v1alpha1.TagName, owner.Namespace+"/"+owner.Cluster)+`</item>`)
}

// RoundTrip implements http.RoundTripper.
func (a *account) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	status, answer := a.answer(form)
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {xmlType}}, Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer)),
	}, nil
}

// ServeHTTP implements http.Handler.
func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, answer := a.answer(r.Form)
	w.Header().Set("Content-Type", xmlType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer) // a client that is gone reads nothing
}

// answer does one call.
func (a *account) answer(form url.Values) (status int, body string) {
	action := form.Get("Action")
	a.mu.Lock()
	a.calls[action]++
	a.mu.Unlock()
	if form.Get("DryRun") == "true" {
		return http.StatusPreconditionFailed, `<Response><Errors><Error><Code>DryRunOperation</Code><Message>everything is permitted</Message></Error></Errors></Response>`
	}
	set, items := "", []string(nil)
	switch action {
	case "DescribeInstances":
		set, items = "reservationSet", a.instances
	case "DescribeVolumes":
		set, items = "volumeSet", a.volumes
	case "DescribeSnapshots":
		set = "snapshotSet"
	case "DescribeSecurityGroups":
		set, items = "securityGroupInfo", a.groups
	case "DescribeInstanceStatus":
		set = "instanceStatusSet"
	case "DescribeSubnets":
		set, items = "subnetSet", describedSubnets()
	case "GetCallerIdentity":
		return http.StatusOK, `<GetCallerIdentityResponse xmlns="` + stsSchema + `"><GetCallerIdentityResult>` +
			elements("Account", accountID) + `</GetCallerIdentityResult></GetCallerIdentityResponse>`
	default:
		return http.StatusBadRequest, `<Response><Errors><Error><Code>UnsupportedOperation</Code><Message>the stub only describes, it does not ` +
			action + `</Message></Error></Errors></Response>`
	}
	page, next := pageOf(items, form)
	return http.StatusOK, `<` + action + `Response xmlns="` + ec2Schema + `"><` + set + `>` + strings.Join(page, "") + `</` + set + `>` + next +
		`</` + action + `Response>`
}

// answered returns the calls so far, by action.
func (a *account) answered() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.calls)
}

// pageOf cuts out the page that a request asks for; the token of the next one is its offset.
func pageOf(items []string, form url.Values) (page []string, next string) {
	size, err := strconv.Atoi(form.Get("MaxResults"))
	if err != nil || size < 1 {
		return items, ""
	}
	from, err := strconv.Atoi(form.Get("NextToken"))
	if err != nil || from < 0 {
		from = 0
	}
	from = min(from, len(items))
	to := min(from+size, len(items))
	if to < len(items) {
		next = elements("nextToken", strconv.Itoa(to))
	}
	return slices.Clone(items[from:to]), next
}

func describedSubnets() []string {
	var items []string
	for i, zone := range zones {
		items = append(items, `<item>`+elements("subnetId", subnetID(i), "vpcId", vpcID, "availabilityZone", zone,
			"cidrBlock", fmt.Sprintf("10.%d.0.0/16", 77+i), "state", "available", "availableIpAddressCount", "60000")+`</item>`)
	}
	return items
}

// elements writes pairs of a name and a value as XML.
func elements(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "<%[1]s>%[2]s</%[1]s>", pairs[i], escape(pairs[i+1]))
	}
	return b.String()
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder takes everything
	return b.String()
}

// tagSet writes the tags that the operator puts on everything of a cluster, and others.
func tagSet(owner awsapi.Ownership, more ...string) string {
	pairs := append([]string{v1alpha1.TagClusterUID, owner.ClusterUID, v1alpha1.TagNamespace, owner.Namespace, v1alpha1.TagCluster, owner.Cluster}, more...)
	text := "<tagSet>"
	for i := 0; i+1 < len(pairs); i += 2 {
		text += `<item>` + elements("key", pairs[i], "value", pairs[i+1]) + `</item>`
	}
	return text + "</tagSet>"
}
