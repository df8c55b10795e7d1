package awsapi

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TagPurpose says why a snapshot was taken, and sets an instance's root volume apart from its data volume.
const TagPurpose = v1alpha1.Prefix + "purpose"

const (
	// PurposeRoot is the TagPurpose of root volumes. They carry the cluster's UID too, so that what they cost is
	// accounted for, but they are no state of a member and never appear in an Inventory.
	PurposeRoot = "root"

	// awsTagPrefix is reserved by AWS, in any case of letters.
	awsTagPrefix = "aws:"
)

// Ownership says whose a new resource is. UserTags are the tags of the spec; those that begin with the operator's or
// AWS's prefix are dropped.
type Ownership struct {
	ClusterUID, Namespace, Cluster string
	UserTags                       map[string]string
	// CountedSince is since when, in whole seconds, the incarnations of the cluster's members are counted: zero from its
	// beginning, else since its records were lost.
	CountedSince time.Time
}

// Tags are what every resource of a cluster carries: the user's tags and, above them, the operator's.
func (o Ownership) Tags(name string) map[string]string {
	tags := make(map[string]string, len(o.UserTags)+8)
	for k, v := range o.UserTags {
		if strings.HasPrefix(k, v1alpha1.Prefix) || strings.HasPrefix(strings.ToLower(k), awsTagPrefix) {
			continue
		}
		tags[k] = v
	}
	tags[v1alpha1.TagClusterUID] = o.ClusterUID
	tags[v1alpha1.TagNamespace] = o.Namespace
	tags[v1alpha1.TagCluster] = o.Cluster
	tags[v1alpha1.TagName] = name
	return tags
}

// TagsOf are Tags plus the member's name and incarnation.
func (o Ownership) TagsOf(member string, incarnation int) map[string]string {
	tags := o.Tags(o.Namespace + "/" + member)
	tags[v1alpha1.TagMember] = member
	tags[v1alpha1.TagIncarnation] = strconv.Itoa(incarnation)
	return tags
}

// MemberTags are the operator's own tags of what belongs to a member, without the user's. Without an incarnation, 0, so is
// that.
func (o Ownership) MemberTags(member string, incarnation int) map[string]string {
	o.UserTags = nil
	tags := o.TagsOf(member, incarnation)
	if incarnation == 0 {
		delete(tags, v1alpha1.TagIncarnation)
	}
	return tags
}

// WithTag returns a copy of tags that holds key=value as well.
func WithTag(tags map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(tags)+1)
	maps.Copy(out, tags)
	out[key] = value
	return out
}

// ToTags turns tags into EC2's form, sorted by key: EC2 compares a repeated client token's parameters with the first ones.
func ToTags(tags map[string]string) []types.Tag {
	out := make([]types.Tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	return out
}

// FromTags turns tags from EC2's form. It keeps one copy of each text: a cluster's resources have nearly the same tags, and so have those of all clusters.
func FromTags(tags []types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[unique.Make(aws.ToString(t.Key)).Value()] = unique.Make(aws.ToString(t.Value)).Value()
	}
	return out
}

// TagSpec tags what a call creates.
func TagSpec(kind types.ResourceType, tags map[string]string) types.TagSpecification {
	return types.TagSpecification{ResourceType: kind, Tags: ToTags(tags)}
}

// IncarnationOf reads the incarnation from tags; 0 when it is missing or unreadable.
func IncarnationOf(tags map[string]string) int {
	n, err := strconv.Atoi(tags[v1alpha1.TagIncarnation])
	if err != nil {
		return 0
	}
	return n
}

// Filter selects what has one of the values.
func Filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// TagFilter selects what has a tag with this value.
func TagFilter(key, value string) types.Filter { return Filter("tag:"+key, value) }

// MemberFilters select the resources of one incarnation of one member.
func MemberFilters(clusterUID, member string, incarnation int) []types.Filter {
	return []types.Filter{
		TagFilter(v1alpha1.TagClusterUID, clusterUID),
		TagFilter(v1alpha1.TagMember, member),
		TagFilter(v1alpha1.TagIncarnation, strconv.Itoa(incarnation)),
	}
}

// OwnedFilter selects everything that belongs to any cluster of the operator.
func OwnedFilter() types.Filter { return Filter("tag-key", v1alpha1.TagClusterUID) }
