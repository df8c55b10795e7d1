package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/records"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// InventoryAge is how old the sweep that a pass relies on may be. The background sweep is more frequent, so a pass
	// finds it in the store; only the first pass over an account pays for a sweep of its own.
	InventoryAge = 2 * time.Minute
	// troubledAge is how old it may be before a pass of a cluster asks for another, which it does not wait for, when a member stopped to
	// answer less than troubleFor ago: that its instance is off counts only when a later sweep says so, and large accounts are swept
	// less often than every half a minute.
	troubledAge, troubleFor = 35 * time.Second, 2 * time.Minute
	// endingAge is the same for a cluster that is to go, and of which nothing is shown any more.
	endingAge = 15 * time.Second
	// sweepPatience is how long a pass waits for a sweep of its own when it knows what EC2 showed before: a member may have
	// failed, and what is done about it must not wait for an EC2 that fails as well.
	sweepPatience = 2 * time.Second
	// TagsShown is how long EC2 may take to show, with its tags, an instance or a snapshot that it has made.
	TagsShown = 2 * time.Minute
)

// Observe reads what EC2 shows of the cluster, and resolves the names of the spec.
func (r *Cloud) Observe(ctx context.Context, s *pass.Pass) error {
	s.Desired = desiredOf(s.Cluster, s.Deleting(), r.Clock.Now())
	s.Observed = topology.Observed{
		Now: r.Clock.Now(), Members: map[string]*topology.Member{}, InService: map[string]bool{}, Records: s.Records(), WriterID: r.WriterID(),
	}
	readRequests(s)
	readWindow(s)
	readSettings(s)
	readMonitoring(s)
	r.ReadBefore(s)
	r.watch(s)
	switch {
	case s.NeverBegun() && s.Access.Cloud == nil:
		s.Observed.CloudReachable = true // that there is nothing is known without asking
		return nil
	case s.Access.Cloud != nil:
		r.readInventory(ctx, s)
		if pass.Unbegun(s) && s.Shown() {
			s.Stored.Lost = true // those of a new cluster stand in for what they were
		}
	default:
		// Where the members are is remembered, so that mysqld is looked after while EC2 is not to be used.
		s.Seen.Inventory, s.Observed.CloudTaken = s.Cache.Cloud.Inventory, s.Cache.Cloud.Inventory.Taken
	}
	if s.Access.Problem != nil && s.Seen.Inventory.Taken.IsZero() && !s.Abandons() {
		if err := r.inventoryFromRecords(ctx, s); err != nil {
			return err
		}
		if !s.Shown() {
			return s.Access.Problem // nothing is known: phases stay as they are
		}
	}
	r.memberise(s)
	r.learnMemory(ctx, s)
	s.Observed.Records = records.RecordsForNow(s, s.Observed, r.Clock.Now())
	return nil
}

// watch notes since when what is made for the cluster is made by this process, and known to it.
func (r *Cloud) watch(s *pass.Pass) {
	n := s.Cache
	if !n.Cloud.Watched {
		n.Cloud.Watched = true
		if s.Stored.Lost || s.Records().Account != "" || len(s.Records().Members) > 0 {
			n.Cloud.WatchedSince = r.Clock.Now()
		}
	}
	s.Observed.WatchedSince, s.Observed.DoubtAt = n.Cloud.WatchedSince, n.Requests.Doubted()
	s.Observed.UncoveredReported = pass.ReportedUncovered(pass.LastPromotion(s))
	n.Published.Clients.Observe(&s.Observed)
}

// readInventory fills in s.inventory. What EC2 said last is kept when it does not answer.
func (r *Cloud) readInventory(ctx context.Context, s *pass.Pass) {
	inventory, err := r.askInventory(ctx, s)
	s.Seen.Inventory = inventory
	switch {
	case err != nil:
		s.Access.Problem = engine.ReadingError(err)
		if s.Access.Problem.Quiet() && r.Clock.Since(inventory.Taken) > InventoryAge {
			s.Access.Problem.Reason = v1alpha1.ReasonCloudSilent // a list that is throttled for so long holds up what has to be created
		}
	case s.Access.AccountProblem != nil && !s.Shown():
		s.Access.Problem = s.Access.AccountProblem // nothing of the cluster in an account that may be another one says nothing
	default:
		if err := r.findHidden(ctx, s); err != nil {
			s.Access.Problem = engine.ReadingError(err)
		}
	}
	if s.Access.Problem != nil {
		recall(&s.Seen.Inventory, s.Cache.Cloud.Inventory)
	}
	if s.NeverBegun() && !s.Shown() {
		s.Access.Problem = nil // what its records say is enough where EC2 says nothing
	}
	s.Observed.CloudReachable, s.Observed.CloudTaken = s.Access.Problem == nil, s.Seen.Inventory.Taken
	if !s.Observed.CloudReachable {
		return
	}
	s.Cache.Cloud.Inventory = s.Seen.Inventory
	reportLists(s)
	if !s.Deleting() {
		r.readSubnets(ctx, s)
	}
}

// recall fills in what EC2 has not answered a client yet that is new, because a key was exchanged, from what it answered the one before.
func recall(of *inventory.Inventory, known inventory.Inventory) {
	switch instances, volumes := !of.InstancesTaken.IsZero(), !of.VolumesTaken.IsZero(); {
	case known.Taken.IsZero() || instances && volumes:
	case instances:
		of.Volumes = known.Volumes
	case volumes:
		of.Instances, of.Answered = known.Instances, known.Answered
	default:
		*of = known
	}
}

// askInventory asks the store, and for what moves EC2 itself. While a member does not answer EC2 is asked about all
// instances of the cluster: somebody else may have stopped or ended one, and what is done next depends on it.
func (r *Cloud) askInventory(ctx context.Context, s *pass.Pass) (inventory.Inventory, error) {
	sweep := ctx
	if s.Cache.Cloud.FromRecords || !s.Cache.Cloud.Inventory.Taken.IsZero() {
		var cancel context.CancelFunc
		sweep, cancel = context.WithTimeout(ctx, sweepPatience)
		defer cancel()
	}
	age := InventoryAge
	if s.Deleting() && !s.Shown() && !s.Cache.Cloud.Inventory.Taken.IsZero() {
		age = endingAge
	}
	_, swept := s.Access.Cloud.Inventory.Observe(sweep, s.UID(), age)
	if s.Cache.Looks.Members.Detector.SomeDownFor(troubleFor, r.Clock.Now()) {
		s.Access.Cloud.Inventory.Freshen(ctx, troubledAge)
	}
	look := s.Access.Cloud.Inventory.Refresh
	if s.Cache.Looks.Members.Detector.SomeSilent() {
		look = s.Access.Cloud.Inventory.RefreshNow
	}
	inventory, err := look(ctx, s.UID())
	switch {
	case swept != nil:
		return inventory, swept // the lists are too old to create anything from; what a look by id has shown counts
	case awsapi.IsThrottled(err):
		return inventory, nil // EC2 is there, and what it said in the last sweep still counts
	}
	return inventory, err
}

// takeCommon takes what EC2 shows of the cluster as a whole.
func takeCommon(s *pass.Pass) {
	s.Observed.Snapshots.Taken = s.Seen.Inventory.SnapshotsTaken
	for _, snapshot := range s.Seen.Inventory.Snapshots {
		s.Observed.Snapshots.Known = append(s.Observed.Snapshots.Known, topology.Snapshot{
			ID: snapshot.ID, Member: snapshot.Member, VolumeID: snapshot.VolumeID, State: snapshot.State, Progress: snapshot.Progress,
			Purpose: snapshot.Tags[awsapi.TagPurpose], StartedAt: snapshot.StartTime,
		})
	}
	for _, group := range s.Seen.Inventory.SecurityGroups {
		if group.Name == ec2.GroupName(s.UID()) && (s.Seen.VPC == "" || group.VPCID == s.Seen.VPC) {
			s.Observed.SecurityGroup = group.ID
		}
	}
}

// volumeOf is a volume as the planner sees it.
func volumeOf(v inventory.Volume) topology.Volume {
	return topology.Volume{
		ID: v.ID, Incarnation: v.Incarnation, State: v.State, Zone: v.Zone, AttachedTo: v.AttachedTo, AttachState: v.AttachState, SizeGiB: v.SizeGiB, Type: v.Type, IOPS: v.IOPS, Throughput: v.Throughput,
		Opened: v.Tags[v1alpha1.TagMySQLVersion], Foreign: v.Tags[v1alpha1.TagRecovery] == v1alpha1.RecoveryPending,
	}
}

// memberise sorts EC2's inventory by member.
func (r *Cloud) memberise(s *pass.Pass) {
	member := func(name string) *topology.Member {
		ordinal, ok := s.Desired.Ordinal(name)
		if !ok {
			return nil // carries our UID but no member's name: reported by the sweep, never touched
		}
		if s.Observed.Members[name] == nil {
			s.Observed.Members[name] = &topology.Member{Name: name, Ordinal: ordinal, RecordedVolume: s.Records().Members[name].VolumeID}
		}
		return s.Observed.Members[name]
	}
	r.findUntagged(s)
	for _, in := range s.Seen.Inventory.Instances {
		if m := member(in.Member); m != nil {
			seen := instanceOf(in)
			seen.TemplateHash = sameTemplate(s, in)
			seen.AnsweredAt = s.Seen.Inventory.Answered[in.ID]
			m.Instances = append(m.Instances, seen)
		}
	}
	for _, v := range s.Seen.Inventory.Volumes {
		if m := member(v.Member); m != nil && !v.Retired {
			m.Volumes = append(m.Volumes, volumeOf(v))
			recordOutdated(s, v)
		}
	}
	takeCommon(s)
	s.Observed.Strangers = len(s.Seen.Strangers)
	for name, rec := range s.Records().Members {
		if rec.VolumeID != "" || rec.PendingVolume != "" {
			member(name) // although EC2 may show nothing of it
		}
	}
	for _, m := range s.Observed.Members {
		s.Cache.Looks.Members.Detector.RecordVolumes(m, s.Records().Members[m.Name].PendingVolume, s.Observed.CloudReachable, r.Clock.Now())
		s.Cache.Requests.Show(m, r.Clock.Now())
	}
}

// recordOutdated notes a volume whose tag does not tell yet which version may have opened it: whoever restores it later goes by
// that.
func recordOutdated(s *pass.Pass, v inventory.Volume) {
	rec := s.Records().Members[v.Member]
	if s.Access.Cloud == nil || rec.VolumeID != v.ID || rec.Opened == "" || v.Tags[v1alpha1.TagMySQLVersion] == rec.Opened || v.Tags[v1alpha1.TagClusterUID] != s.UID() {
		return
	}
	if s.Seen.Outdated == nil {
		s.Seen.Outdated = map[string]string{}
	}
	s.Seen.Outdated[v.ID] = rec.Opened
}

// instanceOf translates an instance into the planner's words. Of what EC2 announced only the earliest matters.
func instanceOf(in inventory.Instance) topology.Instance {
	out := topology.Instance{
		ID: in.ID, Incarnation: in.Incarnation, State: in.State, Zone: in.Zone, Address: in.PrivateIP,
		TemplateHash: in.TemplateHash, LaunchTime: in.LaunchTime, BareMetal: in.BareMetal(), StatusChecks: topology.StatusChecks{Impaired: in.Impaired, VolumesImpaired: in.VolumesImpaired}, StateReason: in.StateReason,
	}
	if len(in.Events) > 0 {
		out.Event, out.EventAt = in.Events[0].Code, in.Events[0].NotBefore
	}
	return out
}

// findUntagged recognises what lost its member's tag: a volume by the records, an instance by its volume. The operator's tags are put
// back when the pass acts. What is not recognised is left alone and reported.
func (r *Cloud) findUntagged(s *pass.Pass) {
	memberOf := map[string]string{} // by volume
	for i := range s.Seen.Inventory.Volumes {
		v := &s.Seen.Inventory.Volumes[i]
		for name, rec := range s.Records().Members {
			if rec.VolumeID == v.ID && (v.Member == "" || v.Member == name && v.Incarnation == 0) {
				v.Member, v.Incarnation = name, rec.Volume
			}
		}
		if _, ok := s.Desired.Ordinal(v.Member); !ok {
			s.Seen.Strangers = append(s.Seen.Strangers, strangerMessage(v.ID))
		} else if v.Tags[v1alpha1.TagClusterUID] == "" {
			s.Seen.Strangers = append(s.Seen.Strangers, lostTag(s, "volume "+v.ID+" of "+v.Member, "detached or deleted"))
		} else if !v.Retired {
			untag(s, v.ID, v.Tags, s.Owner().MemberTags(v.Member, v.Incarnation))
		}
		memberOf[v.ID] = v.Member
	}
	for i := range s.Seen.Inventory.Instances {
		r.findUntaggedInstance(s, &s.Seen.Inventory.Instances[i], memberOf)
	}
	if s.Observed.CloudReachable {
		maps.DeleteFunc(s.Cache.Cloud.Tags, func(id string, _ map[string]string) bool {
			return !slices.ContainsFunc(s.Seen.Inventory.Instances, func(in inventory.Instance) bool { return in.ID == id })
		})
	}
}

// recogniseInstance finds out whose an instance is that lost tags: by its volume, by what was seen of it before and by its client token.
// It returns the incarnation that is proven, 0 for none.
func recogniseInstance(s *pass.Pass, in *inventory.Instance, memberOf map[string]string) (proven int) {
	for _, attached := range in.Attachments {
		if name := memberOf[attached.VolumeID]; in.Member == "" && name != "" {
			in.Member = name
		}
	}
	in.TemplateHash = cmp.Or(in.TemplateHash, s.Cache.Cloud.Tags[in.ID][v1alpha1.TagTemplateHash])
	proven = in.Incarnation
	if in.Incarnation == 0 && in.Member != "" {
		newest := s.Records().Members[in.Member].Instance
		in.Incarnation = newest
		if n, ours := in.LaunchedFor(s.Owner(), in.Member, newest); ours {
			in.Incarnation, proven = n, n
		}
	}
	return proven
}

// findUntaggedInstance is findUntagged for an instance. What it was made from is on no other record than its tags: it is put back
// where this process has seen it, and told otherwise.
func (r *Cloud) findUntaggedInstance(s *pass.Pass, in *inventory.Instance, memberOf map[string]string) {
	proven := recogniseInstance(s, in, memberOf)
	_, known := s.Desired.Ordinal(in.Member)
	switch {
	case in.State == inventory.StateTerminated: // of which EC2 may forget the tags
		return
	case in.Member == "":
		s.Seen.Strangers = append(s.Seen.Strangers, strangerMessage(in.ID))
		return
	case in.Tags[v1alpha1.TagClusterUID] == "":
		s.Seen.Strangers = append(s.Seen.Strangers, lostTag(s, "instance "+in.ID+" of "+in.Member, "stopped or terminated"))
		return
	case !known || in.State == inventory.StateShuttingDown || !s.Observed.CloudReachable:
		return
	}
	seen, want := s.Cache.Cloud.Tags[in.ID], s.Owner().MemberTags(in.Member, proven)
	for _, tag := range []string{v1alpha1.TagTemplateHash, v1alpha1.TagImage} {
		if value := cmp.Or(in.Tags[tag], seen[tag]); value != "" {
			want[tag] = value
		}
	}
	s.Cache.Cloud.Tags[in.ID] = want
	untag(s, in.ID, in.Tags, want)
	if in.TemplateHash == "" && r.Clock.Since(in.LaunchTime) > TagsShown {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonTagMissing, Message: fmt.Sprintf(
			"instance %s of %s has lost the tag %s: whether it is as the spec wants is not known, and it stays as it is when the spec changes. Put the tag back, or terminate the instance: another is made",
			in.ID, in.Member, v1alpha1.TagTemplateHash)})
	}
}

// strangerMessage tells of a resource that is ours and no member's.
func strangerMessage(id string) string {
	return fmt.Sprintf("%s carries this cluster's tag %s but %s names no member; it is left alone: put the tag right or delete it", id, v1alpha1.TagClusterUID, v1alpha1.TagMember)
}

// untag notes which of its tags a resource has lost. One with another value is left alone: it is somebody's.
func untag(s *pass.Pass, id string, have, want map[string]string) {
	if s.Access.Cloud == nil || !s.Observed.CloudReachable {
		return // nobody can put them back now
	}
	lost := map[string]string{}
	for tag, value := range want {
		if have[tag] == "" {
			lost[tag] = value
		}
	}
	if len(lost) > 0 {
		s.Seen.Untagged = append(s.Seen.Untagged, engine.LostTags{ID: id, Tags: lost})
	}
}

// desiredOf fills in what the spec leaves out.
func desiredOf(c *v1alpha1.MySQLCluster, deleting bool, now time.Time) topology.Desired {
	return topology.Desired{
		Cluster:              c.Name,
		Replicas:             int(c.ReplicaCount()),
		Durability:           topology.Durability{Lossless: c.Spec.Lossless(), AckFromMemory: c.Spec.AcknowledgesFromMemory(), MaxApplyLag: c.Spec.EffectiveMaxApplyLag()},
		MaxLag:               c.EffectiveMaxLag(),
		TemplateHash:         TemplateOf(c).Hash(),
		Version:              c.Spec.Version,
		SizeGiB:              c.StorageGiB(),
		VolumeType:           string(c.Spec.Storage.VolumeType()),
		IOPS:                 c.Spec.Storage.EffectiveIOPS(),
		Throughput:           c.Spec.Storage.EffectiveThroughput(),
		ManagedSecurityGroup: len(c.Spec.AWS.SecurityGroupIDs) == 0,
		Settings:             settings.ForMembers(c.Spec.Settings()),
		Database:             c.Spec.Database != nil,
		Requests:             requestsOf(c),
		Holds:                topology.Holds{Hold: HoldsBack(c, now)},
		Soak:                 c.Soak(),
		Hibernate:            c.Spec.Hibernate,
		Beginning:            topology.Beginning{Recover: c.Recovery() != nil, ToPoint: c.Recovery() != nil && c.Recovery().PointInTime != nil},
		Deleting:             deleting,
		DeletionPolicy:       c.Spec.Storage.EffectiveDeletionPolicy(),
	}
}
