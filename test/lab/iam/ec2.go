package iam

import (
	"fmt"
	"strings"
)

// ec2Calls lists what each EC2 call touches besides reading ones, by the reference's table of actions.
var ec2Calls = map[string]func(*touched){
	"RunInstances":            (*touched).launch,
	"StartInstances":          each("InstanceId."),
	"StopInstances":           each("InstanceId."),
	"RebootInstances":         each("InstanceId."),
	"TerminateInstances":      each("InstanceId."),
	"ModifyInstanceAttribute": each("InstanceId", "GroupId."),
	"GetConsoleOutput":        each("InstanceId"),
	"CreateVolume": func(t *touched) {
		t.creates("volume")
		t.existing("SnapshotId")
	},
	"AttachVolume": each("VolumeId", "InstanceId"),
	"DetachVolume": each("VolumeId", "InstanceId"),
	"ModifyVolume": each("VolumeId"),
	"DeleteVolume": each("VolumeId"),
	"CreateSnapshot": func(t *touched) {
		t.creates("snapshot")
		t.existing("VolumeId")
	},
	"DeleteSnapshot": each("SnapshotId"),
	"CreateTags":     (*touched).tag,
	"DeleteTags":     (*touched).tag,
	"CreateSecurityGroup": func(t *touched) {
		t.creates("security-group")
		t.existing("VpcId")
	},
	"AuthorizeSecurityGroupIngress": each("GroupId"),
	"RevokeSecurityGroupIngress":    each("GroupId"),
	"DeleteSecurityGroup":           each("GroupId"),
}

// readsEC2 says whether a call lists resources, or reads settings of the account. AWS knows no resources for those.
func readsEC2(action string) bool {
	return strings.HasPrefix(action, "Describe") || action == "GetInstanceMetadataDefaults"
}

// kinds are the resources of EC2 by the prefix of their ids. Images and snapshots have no account in their ARN.
var kinds = map[string]string{
	"i": "instance", "vol": "volume", "snap": "snapshot", "sg": "security-group", "sgr": "security-group-rule", "eni": "network-interface",
	"subnet": "subnet", "vpc": "vpc", "ami": "image", "lt": "launch-template",
}

var withoutAccount = map[string]bool{"image": true, "snapshot": true}

// touched collects what one EC2 call touches.
type touched struct {
	Call
	account  Account
	requests []Request
	ids      []named
	err      error
}

// named is a resource that a call names, and the tags that it is to get.
type named struct {
	id   string
	tags map[string]string
}

func (c Call) ec2(account Account) ([]Request, error) {
	t := &touched{Call: c, account: account}
	list := ec2Calls[c.Action]
	if list == nil {
		return []Request{{Action: "ec2:" + c.Action, Resource: everything, Keys: t.keys()}}, nil
	}
	list(t)
	t.lookUp()
	if t.err != nil {
		return nil, fmt.Errorf("find what ec2:%s touches: %w", c.Action, t.err)
	}
	return t.requests, nil
}

func (t *touched) keys() Keys { return t.Call.keys().with(keyEC2Region, t.Region) }

func (t *touched) ask(action, resource string, keys Keys) {
	t.requests = append(t.requests, Request{Action: action, Resource: resource, Keys: keys})
}

// ec2ARN names a resource of EC2.
func (t *touched) ec2ARN(kind, id string) string {
	if withoutAccount[kind] {
		return fmt.Sprintf("arn:aws:ec2:%s::%s/%s", t.Region, kind, id)
	}
	return t.arn("ec2", kind+"/"+id)
}

// each is for calls that name existing resources and create none.
func each(parameters ...string) func(*touched) {
	return func(t *touched) {
		for _, parameter := range parameters {
			t.existing(parameter)
		}
	}
}

// existing adds the resource that a parameter names, or all of a list's when the parameter ends in a dot.
func (t *touched) existing(parameter string) { t.existingTagged(parameter, nil) }

func (t *touched) existingTagged(parameter string, tags map[string]string) {
	for _, id := range t.values(parameter) {
		t.ids = append(t.ids, named{id, tags})
	}
}

// values are those of one parameter, or of a list (Name.1, Name.2, …).
func (t *touched) values(parameter string) []string {
	if !strings.HasSuffix(parameter, ".") {
		if value := t.Form.Get(parameter); value != "" {
			return []string{value}
		}
		return nil
	}
	var out []string
	for n := 1; t.Form.Get(fmt.Sprint(parameter, n)) != ""; n++ {
		out = append(out, t.Form.Get(fmt.Sprint(parameter, n)))
	}
	return out
}

// tags reads a list of tags (Tag.1.Key, Tag.1.Value, …).
func (t *touched) tags(parameter string) map[string]string {
	out := map[string]string{}
	for n := 1; t.Form.Has(fmt.Sprintf("%s%d.Key", parameter, n)); n++ {
		out[t.Form.Get(fmt.Sprintf("%s%d.Key", parameter, n))] = t.Form.Get(fmt.Sprintf("%s%d.Value", parameter, n))
	}
	return out
}

// specified are the tags that a creating call gives to a kind of resource.
func (t *touched) specified(kind string) map[string]string {
	for n := 1; ; n++ {
		at := fmt.Sprintf("TagSpecification.%d.", n)
		switch t.Form.Get(at + "ResourceType") {
		case kind:
			return t.tags(at + "Tag.")
		case "":
			return nil
		}
	}
}

// creates adds a resource that the call makes, and the permission to tag it where the call does.
func (t *touched) creates(kind string) {
	resource, tags := t.ec2ARN(kind, "*"), t.specified(kind)
	keys := t.keys().withRequestTags(tags)
	t.ask("ec2:"+t.Action, resource, keys)
	if len(tags) > 0 {
		t.ask("ec2:CreateTags", resource, keys.with(keyCreateAction, t.Action))
	}
}

// tag is CreateTags and DeleteTags.
func (t *touched) tag() { t.existingTagged("ResourceId.", t.tags("Tag.")) }

// launch is RunInstances.
func (t *touched) launch() {
	t.creates("instance")
	t.creates("volume") // the root at least
	t.existing("ImageId")
	t.existing("SubnetId")
	groups := t.existingGroups("SecurityGroupId.")
	makesInterface := !t.Form.Has("NetworkInterface.1.DeviceIndex")
	for n := 0; t.Form.Has(fmt.Sprintf("NetworkInterface.%d.DeviceIndex", n+1)); n++ {
		at := fmt.Sprintf("NetworkInterface.%d.", n+1)
		t.existing(at + "SubnetId")
		groups += t.existingGroups(at + "SecurityGroupId.")
		t.existing(at + "NetworkInterfaceId")
		makesInterface = makesInterface || !t.Form.Has(at+"NetworkInterfaceId")
	}
	if makesInterface {
		t.creates("network-interface")
		if groups == 0 {
			t.ask("ec2:"+t.Action, t.ec2ARN("security-group", "*"), t.keys()) // the network's default
		}
	}
	for n := 1; t.Form.Has(fmt.Sprintf("BlockDeviceMapping.%d.DeviceName", n)); n++ {
		t.existing(fmt.Sprintf("BlockDeviceMapping.%d.Ebs.SnapshotId", n))
	}
	t.existing("LaunchTemplate.LaunchTemplateId")
	if key := t.Form.Get("KeyName"); key != "" {
		t.ask("ec2:"+t.Action, t.ec2ARN("key-pair", key), t.keys())
	}
	t.passRole()
}

func (t *touched) existingGroups(parameter string) int {
	t.existing(parameter)
	return len(t.values(parameter))
}

// passRole asks whether the caller may give the role of the instance profile to EC2.
func (t *touched) passRole() {
	profile := t.Form.Get("IamInstanceProfile.Arn") + t.Form.Get("IamInstanceProfile.Name")
	if profile == "" {
		return
	}
	role, err := t.account.Role(profile)
	if err != nil {
		t.err = err
		return
	}
	if role != "" { // else EC2 refuses the profile
		t.ask("iam:PassRole", role, t.keys().with(keyPassedToService, "ec2.amazonaws.com"))
	}
}

// lookUp turns the resources that the call names into requests, with the tags that they carry.
func (t *touched) lookUp() {
	if len(t.ids) == 0 || t.err != nil {
		return
	}
	ids := make([]string, 0, len(t.ids))
	for _, n := range t.ids {
		ids = append(ids, n.id)
	}
	found, err := t.account.Tags(ids)
	if err != nil {
		t.err = err
		return
	}
	for _, n := range t.ids {
		prefix, _, _ := strings.Cut(n.id, "-")
		kind := kinds[prefix]
		if kind == "" {
			kind = prefix // EC2 refuses the id
		}
		t.ask("ec2:"+t.Action, t.ec2ARN(kind, n.id), t.keys().withTags(found[n.id], resourceTag, ec2ResourceTag).withRequestTags(n.tags))
	}
}
