package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// cloudObserver says what EC2 shows of a cluster.
type cloudObserver struct {
	*Ports
}

const (
	// inventoryAge is how old the sweep that a pass relies on may be. The background sweep is more frequent, so a pass
	// finds it in the store; only the first pass over an account pays for a sweep of its own.
	inventoryAge = 2 * time.Minute
	// troubledAge is how old it may be before a pass of a cluster asks for another, which it does not wait for, when a member stopped to
	// answer less than troubleFor ago: that its machine is off counts only when a later sweep says so, and large accounts are swept
	// less often than every half a minute.
	troubledAge, troubleFor = 35 * time.Second, 2 * time.Minute
	// endingAge is the same for a cluster that is to go, and of which nothing is shown any more.
	endingAge = 15 * time.Second
	// sweepPatience is how long a pass waits for a sweep of its own when it knows what EC2 showed before: a member may have
	// failed, and what is done about it must not wait for an EC2 that fails as well.
	sweepPatience = 2 * time.Second
	// stopPatience is how long a stop may take before it is asked for again: a forced one waits for nothing in the machine.
	stopPatience = time.Minute
	// tagsShown is how long EC2 may take to show, with its tags, a machine or a snapshot that it has made.
	tagsShown = 2 * time.Minute
)

// observeCloud reads what EC2 shows of the cluster, and resolves the names of the spec.
func (r *cloudObserver) observeCloud(ctx context.Context, s *pass) error {
	s.desired = desiredOf(s.cluster, s.deleting(), r.Clock.Now())
	s.observed = topology.Observed{
		Now: r.Clock.Now(), Members: map[string]*topology.Member{}, InService: map[string]bool{}, Records: s.records(), Hand: r.hand(),
	}
	readRequests(s)
	readWindow(s)
	r.readBefore(s)
	r.watch(s)
	switch {
	case s.neverBegun() && s.access.cloud == nil:
		s.observed.CloudReachable = true // that there is nothing is known without asking
		return nil
	case s.access.cloud != nil:
		r.readInventory(ctx, s)
		if unbegun(s) && s.shown() {
			s.stored.Lost = true // those of a new cluster stand in for what they were
		}
	default:
		// Where the members are is remembered, so that mysqld is looked after while EC2 is not to be used.
		s.seen.inventory, s.observed.CloudTaken = s.cache.cloud.inventory, s.cache.cloud.inventory.Taken
	}
	if s.access.problem != nil && s.seen.inventory.Taken.IsZero() && !s.abandons() {
		if err := r.recall(ctx, s); err != nil {
			return err
		}
		if !s.shown() {
			return s.access.problem // nothing is known: phases stay as they are
		}
	}
	r.memberise(s)
	s.observed.Records = recordsForNow(s, s.observed, r.Clock.Now())
	return nil
}

// watch notes since when what is made for the cluster is made by this process, and known to it.
func (r *cloudObserver) watch(s *pass) {
	n := s.cache
	if !n.cloud.watched {
		n.cloud.watched = true
		if s.stored.Lost || s.records().Account != "" || len(s.records().Members) > 0 {
			n.cloud.watchedSince = r.Clock.Now()
		}
	}
	s.observed.WatchedSince, s.observed.DoubtAt = n.cloud.watchedSince, n.requests.Doubted()
	s.observed.UncoveredReported = reportedUncovered(lastPromotion(s))
	n.published.clients.Observe(&s.observed)
}

// readInventory fills in s.inventory. What EC2 said last is kept when it does not answer.
func (r *cloudObserver) readInventory(ctx context.Context, s *pass) {
	inventory, err := r.askInventory(ctx, s)
	s.seen.inventory = inventory
	switch {
	case err != nil:
		s.access.problem = engine.ReadingError(err)
	case s.access.accountProblem != nil && !s.shown():
		s.access.problem = s.access.accountProblem // nothing of the cluster in an account that may be another one says nothing
	default:
		if err := r.findHidden(ctx, s); err != nil {
			s.access.problem = engine.ReadingError(err)
		}
	}
	if s.access.problem != nil && !s.shown() {
		s.seen.inventory = s.cache.cloud.inventory // a client that is new, because a key was exchanged, has heard nothing yet
	}
	if s.neverBegun() && !s.shown() {
		s.access.problem = nil // what its records say is enough where EC2 says nothing
	}
	s.observed.CloudReachable, s.observed.CloudTaken = s.access.problem == nil, s.seen.inventory.Taken
	if !s.observed.CloudReachable {
		return
	}
	s.cache.cloud.inventory = s.seen.inventory
	if !s.deleting() {
		r.readSubnets(ctx, s)
	}
}

// askInventory asks the store, and for what moves EC2 itself. While a member does not answer EC2 is asked about all
// machines of the cluster: somebody else may have stopped or ended one, and what is done next depends on it.
func (r *cloudObserver) askInventory(ctx context.Context, s *pass) (ec2.Inventory, error) {
	sweep := ctx
	if s.cache.cloud.recalled || !s.cache.cloud.inventory.Taken.IsZero() {
		var cancel context.CancelFunc
		sweep, cancel = context.WithTimeout(ctx, sweepPatience)
		defer cancel()
	}
	age := inventoryAge
	if s.deleting() && !s.shown() && !s.cache.cloud.inventory.Taken.IsZero() {
		age = endingAge
	}
	inventory, err := s.access.cloud.Observe(sweep, s.uid(), age)
	if err != nil {
		return inventory, err
	}
	if s.cache.looks.members.Detector.SomeDownFor(troubleFor, r.Clock.Now()) {
		s.access.cloud.Freshen(ctx, troubledAge)
	}
	look := s.access.cloud.Refresh
	if s.cache.looks.members.Detector.SomeSilent() {
		look = s.access.cloud.RefreshNow
	}
	inventory, err = look(ctx, s.uid())
	if ec2.IsThrottled(err) {
		err = nil // EC2 is there, and what it said in the last sweep still counts
	}
	return inventory, err
}

// shown says whether EC2 shows anything of the cluster's members.
func (s *pass) shown() bool { return len(s.seen.inventory.Instances)+len(s.seen.inventory.Volumes) > 0 }

// memberise sorts EC2's inventory by member.
func (r *cloudObserver) memberise(s *pass) {
	member := func(name string) *topology.Member {
		ordinal, ok := s.desired.Ordinal(name)
		if !ok {
			return nil // carries our UID but no member's name: reported by the sweep, never touched
		}
		if s.observed.Members[name] == nil {
			s.observed.Members[name] = &topology.Member{Name: name, Ordinal: ordinal, RecordedVolume: s.records().Members[name].VolumeID}
		}
		return s.observed.Members[name]
	}
	r.findUntagged(s)
	for _, in := range s.seen.inventory.Instances {
		if m := member(in.Member); m != nil {
			instance := instanceOf(in)
			instance.StopStuck = r.stopStuck(s.cache, in)
			m.Instances = append(m.Instances, instance)
		}
	}
	for _, v := range s.seen.inventory.Volumes {
		if m := member(v.Member); m != nil && !v.Retired {
			m.Volumes = append(m.Volumes, topology.Volume{
				ID: v.ID, Incarnation: v.Incarnation, State: v.State, Zone: v.Zone, AttachedTo: v.AttachedTo, AttachState: v.AttachState, SizeGiB: v.SizeGiB, Type: v.Type, IOPS: v.IOPS, Throughput: v.Throughput,
				Opened: v.Tags[v1alpha1.TagMySQLVersion], Foreign: v.Tags[v1alpha1.TagRecovery] == v1alpha1.RecoveryPending,
			})
			noteOutdated(s, v)
		}
	}
	for _, snapshot := range s.seen.inventory.Snapshots {
		s.observed.Snapshots = append(s.observed.Snapshots, topology.Snapshot{
			ID: snapshot.ID, Member: snapshot.Member, VolumeID: snapshot.VolumeID, State: snapshot.State, Progress: snapshot.Progress,
			Purpose: snapshot.Tags[ec2.TagPurpose], StartedAt: snapshot.StartTime,
		})
	}
	for _, group := range s.seen.inventory.SecurityGroups {
		if group.Name == ec2.GroupName(s.uid()) && (s.seen.vpc == "" || group.VPCID == s.seen.vpc) {
			s.observed.SecurityGroup = group.ID
		}
	}
	s.observed.Strangers = len(s.seen.strangers)
	for name, rec := range s.records().Members {
		if rec.VolumeID != "" || rec.Made != "" {
			member(name) // although EC2 may show nothing of it
		}
	}
	for _, m := range s.observed.Members {
		s.cache.looks.members.Detector.NoteVolumes(m, s.records().Members[m.Name].Made, s.observed.CloudReachable, r.Clock.Now())
		s.cache.requests.Show(m, r.Clock.Now())
	}
}

// noteOutdated notes a volume whose tag does not tell yet which version may have opened it: whoever restores it later goes by
// that.
func noteOutdated(s *pass, v ec2.Volume) {
	rec := s.records().Members[v.Member]
	if s.access.cloud == nil || rec.VolumeID != v.ID || rec.Opened == "" || v.Tags[v1alpha1.TagMySQLVersion] == rec.Opened || v.Tags[v1alpha1.TagClusterUID] != s.uid() {
		return
	}
	if s.seen.outdated == nil {
		s.seen.outdated = map[string]string{}
	}
	s.seen.outdated[v.ID] = rec.Opened
}

// instanceOf translates an instance into the brain's words. Of what EC2 announced only the earliest matters.
func instanceOf(in ec2.Instance) topology.Instance {
	out := topology.Instance{
		ID: in.ID, Incarnation: in.Incarnation, State: in.State, Zone: in.Zone, Address: in.PrivateIP,
		TemplateHash: in.TemplateHash, LaunchTime: in.LaunchTime, Impaired: in.Impaired, StateReason: in.StateReason,
	}
	if len(in.Events) > 0 {
		out.Event, out.EventAt = in.Events[0].Code, in.Events[0].NotBefore
	}
	return out
}

// stopStuck says once every stopPatience that an instance is still stopping.
func (r *cloudObserver) stopStuck(n *clusterCache, in ec2.Instance) bool {
	since, now := n.looks.stoppingSince[in.ID], r.Clock.Now()
	switch {
	case in.State != ec2.StateStopping:
		delete(n.looks.stoppingSince, in.ID)
	case since.IsZero():
		n.looks.stoppingSince[in.ID] = now
	case now.Sub(since) >= stopPatience:
		n.looks.stoppingSince[in.ID] = now
		return true
	}
	return false
}

// findUntagged recognises what lost its member's tag: a volume by the records, an instance by its volume. The operator's tags are put
// back when the pass acts. What is not recognised is left alone and reported.
func (r *cloudObserver) findUntagged(s *pass) {
	memberOf := map[string]string{} // by volume
	for i := range s.seen.inventory.Volumes {
		v := &s.seen.inventory.Volumes[i]
		for name, rec := range s.records().Members {
			if rec.VolumeID == v.ID && (v.Member == "" || v.Member == name && v.Incarnation == 0) {
				v.Member, v.Incarnation = name, rec.Volume
			}
		}
		if _, ok := s.desired.Ordinal(v.Member); !ok {
			s.seen.strangers = append(s.seen.strangers, strangerMessage(v.ID))
		} else if v.Tags[v1alpha1.TagClusterUID] == "" {
			s.seen.strangers = append(s.seen.strangers, lostTag(s, "volume "+v.ID+" of "+v.Member, "detached or deleted"))
		} else if !v.Retired {
			untag(s, v.ID, v.Tags, s.owner().MemberTags(v.Member, v.Incarnation))
		}
		memberOf[v.ID] = v.Member
	}
	for i := range s.seen.inventory.Instances {
		r.findUntaggedInstance(s, &s.seen.inventory.Instances[i], memberOf)
	}
	if s.observed.CloudReachable {
		maps.DeleteFunc(s.cache.cloud.tags, func(id string, _ map[string]string) bool {
			return !slices.ContainsFunc(s.seen.inventory.Instances, func(in ec2.Instance) bool { return in.ID == id })
		})
	}
}

// findUntaggedInstance is findUntagged for an instance. What it was made from is on no other record than its tags: it is put back
// where this process has seen it, and told otherwise.
func (r *cloudObserver) findUntaggedInstance(s *pass, in *ec2.Instance, memberOf map[string]string) {
	for _, attached := range in.Attachments {
		if name := memberOf[attached.VolumeID]; in.Member == "" && name != "" {
			in.Member = name
		}
	}
	seen := s.cache.cloud.tags[in.ID]
	in.TemplateHash = cmp.Or(in.TemplateHash, seen[v1alpha1.TagTemplateHash])
	proven := in.Incarnation
	if in.Incarnation == 0 && in.Member != "" {
		newest := s.records().Members[in.Member].Instance
		in.Incarnation = newest
		if n, ours := in.LaunchedFor(s.owner(), in.Member, newest); ours {
			in.Incarnation, proven = n, n
		}
	}
	_, known := s.desired.Ordinal(in.Member)
	switch {
	case in.State == ec2.StateTerminated: // of which EC2 may forget the tags
		return
	case in.Member == "":
		s.seen.strangers = append(s.seen.strangers, strangerMessage(in.ID))
		return
	case in.Tags[v1alpha1.TagClusterUID] == "":
		s.seen.strangers = append(s.seen.strangers, lostTag(s, "instance "+in.ID+" of "+in.Member, "stopped or terminated"))
		return
	case !known || in.State == ec2.StateShuttingDown || !s.observed.CloudReachable:
		return
	}
	want := s.owner().MemberTags(in.Member, proven)
	for _, tag := range []string{v1alpha1.TagTemplateHash, v1alpha1.TagImage} {
		if value := cmp.Or(in.Tags[tag], seen[tag]); value != "" {
			want[tag] = value
		}
	}
	s.cache.cloud.tags[in.ID] = want
	untag(s, in.ID, in.Tags, want)
	if in.TemplateHash == "" && r.Clock.Since(in.LaunchTime) > tagsShown {
		s.unmet = append(s.unmet, topology.Finding{Reason: v1alpha1.ReasonTagMissing, Message: fmt.Sprintf(
			"instance %s of %s has lost the tag %s: whether it is as the spec wants is not known, and it stays as it is when the spec changes. Put the tag back, or terminate the instance: another is made",
			in.ID, in.Member, v1alpha1.TagTemplateHash)})
	}
}

// strangerMessage tells of a resource that is ours and no member's.
func strangerMessage(id string) string {
	return fmt.Sprintf("%s carries this cluster's tag %s but %s names no member; it is left alone: put the tag right or delete it", id, v1alpha1.TagClusterUID, v1alpha1.TagMember)
}

// lostTag tells of a resource that is the cluster's and no longer says so. The operator's own policy in IAM does not let it tag
// what carries no cluster's tag: nobody could make anything his own that way.
func lostTag(s *pass, what, cannot string) string {
	return fmt.Sprintf("%s has lost the tag %s=%s; it is used, but cannot be %s until somebody puts the tag back", what, v1alpha1.TagClusterUID, s.uid(), cannot)
}

// untag notes which of its tags a resource has lost. One with another value is left alone: it is somebody's.
func untag(s *pass, id string, have, want map[string]string) {
	if s.access.cloud == nil || !s.observed.CloudReachable {
		return // nobody can put them back now
	}
	lost := map[string]string{}
	for tag, value := range want {
		if have[tag] == "" {
			lost[tag] = value
		}
	}
	if len(lost) > 0 {
		s.seen.untagged = append(s.seen.untagged, engine.LostTags{ID: id, Tags: lost})
	}
}

// desiredOf fills in what the spec leaves out.
func desiredOf(c *v1alpha1.MySQLCluster, deleting bool, now time.Time) topology.Desired {
	hold := holdsBack(c, now)
	return topology.Desired{
		Cluster:              c.Name,
		Replicas:             int(c.ReplicaCount()),
		Lossless:             c.Spec.Lossless(),
		MaxLag:               c.EffectiveMaxLag(),
		TemplateHash:         templateOf(c).hash(),
		Version:              c.Spec.Version,
		SizeGiB:              c.StorageGiB(),
		VolumeType:           string(c.Spec.Storage.VolumeType()),
		IOPS:                 ptr.Deref(c.Spec.Storage.IOPS, 0),
		Throughput:           ptr.Deref(c.Spec.Storage.Throughput, 0),
		ManagedSecurityGroup: len(c.Spec.AWS.SecurityGroupIDs) == 0,
		Settings:             c.Spec.MySQLD,
		Database:             c.Spec.Database != nil,
		SwitchoverTo:         c.Annotations[v1alpha1.AnnotationSwitchover],
		RebuildMember:        c.Annotations[v1alpha1.AnnotationRebuild],
		Hold:                 hold,
		Soak:                 c.Soak(),
		Hibernate:            c.Spec.Hibernate,
		Recover:              c.Recovery() != nil,
		Deleting:             deleting,
		DeletionPolicy:       c.Spec.Storage.EffectiveDeletionPolicy(),
	}
}
