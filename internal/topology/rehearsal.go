package topology

import "slices"

// ReplacementPermissions are those without which a member that is taken off its instance does not get to another one.
func ReplacementPermissions() []string {
	return []string{"ec2:StopInstances", "ec2:DetachVolume", "ec2:AttachVolume"}
}

// Rehearsal is what dry runs have shown of the permissions for what may have to be done one day.
type Rehearsal struct {
	// Completed is false until EC2 has answered a dry run of each of ReplacementPermissions: one that Lacks does not name may be missing.
	Completed bool
	// Unanswered says why EC2 did not answer the last dry runs, for people; empty otherwise.
	Unanswered string
	// Lacks are the permissions that were missing.
	Lacks []string
}

// forbids returns why no member that works is taken off its instance: it might stay away, because a permission is missing without which
// it does not get to another one, or because that is not known.
func (r Rehearsal) forbids() Step {
	if why := r.missing(); why.Waits() || r.Completed {
		return why
	}
	return waitsFor("EC2's answers to dry runs, which show whether all permissions are there", r.Unanswered)
}

// missing says which permission is missing without which a member does not get to another instance.
func (r Rehearsal) missing() Step {
	for _, action := range ReplacementPermissions() {
		if slices.Contains(r.Lacks, action) {
			return waits("the permission " + action + " is missing, see docs/aws.md")
		}
	}
	return Step{}
}

// blocks says whether forbids lasts for longer than the dry runs that are under way.
func (r Rehearsal) blocks() bool { return r.missing().Waits() || !r.Completed && r.Unanswered != "" }
