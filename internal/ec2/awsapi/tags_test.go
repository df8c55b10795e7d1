package awsapi

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

func TestClientTokens(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct {
		kind, uid, member string
		incarnation       int
		since             int64
	}{
		{TokenInstance, "uid", "orders-0", 1, 0}, {TokenVolume, "uid", "orders-0", 1, 0}, {TokenInstance, "uid", "orders-0", 2, 0},
		{TokenInstance, "uid", "orders-1", 1, 0}, {TokenInstance, "uie", "orders-0", 1, 0}, {TokenInstance, "uid", "orders-0", 11, 0},
		{TokenInstance, "uid", "orders-01", 1, 0}, {TokenVolume, "uid", "orders-0", 1, 1_790_000_000}, {TokenVolume, "uid", "orders-0", 1, 1_790_000_001},
	} {
		o := Ownership{ClusterUID: c.uid}
		if c.since > 0 {
			o.CountedSince = time.Unix(c.since, 0)
		}
		token := ClientToken(c.kind, o, c.member, c.incarnation)
		if len(token) != 64 || token != ClientToken(c.kind, o, c.member, c.incarnation) {
			t.Errorf("%+v: token %q", c, token)
		}
		if other, ok := seen[token]; ok {
			t.Errorf("%+v has the token of %s", c, other)
		}
		seen[token] = c.member
	}
	// A token must never change between releases: an upgrade in the middle of a launch would launch twice.
	if got := ClientToken(TokenInstance, Ownership{ClusterUID: "uid"}, "orders-0", 1); got != "7e35cda67dff8c58cff1ab8620bf2e37a312dff8dd56ea8aa3690834e2976e83" {
		t.Errorf("the token's recipe has changed: %s", got)
	}
}

func TestUserTagsNeverOverruleOurs(t *testing.T) {
	o := Ownership{ClusterUID: "uid", Namespace: "shop", Cluster: "orders", UserTags: map[string]string{
		"team": "payments", v1alpha1.TagClusterUID: "another", v1alpha1.TagRetired: "true", "AWS:x": "y", "aws:z": "y", "Name": "mine"}}
	tags := o.TagsOf("orders-0", 3)
	want := map[string]string{"team": "payments", v1alpha1.TagClusterUID: "uid", v1alpha1.TagNamespace: "shop", v1alpha1.TagCluster: "orders",
		v1alpha1.TagMember: "orders-0", v1alpha1.TagIncarnation: "3", v1alpha1.TagName: "shop/orders-0"}
	if len(tags) != len(want) {
		t.Errorf("tags are %v", tags)
	}
	for k, v := range want {
		if tags[k] != v {
			t.Errorf("%s is %q, want %q", k, tags[k], v)
		}
	}
	list := ToTags(tags)
	for i := 1; i < len(list); i++ {
		if aws.ToString(list[i-1].Key) >= aws.ToString(list[i].Key) {
			t.Errorf("tags are not sorted: %v", list)
		}
	}
	if IncarnationOf(map[string]string{v1alpha1.TagIncarnation: "three"}) != 0 || IncarnationOf(tags) != 3 {
		t.Error("incarnations are misread")
	}
}
