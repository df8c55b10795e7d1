package v1alpha1

// Severity ranks the reasons of the Degraded condition: of several findings the one with the lowest rank comes first, and gives the
// condition its reason.
type Severity int

// The ranks, the most severe first.
const (
	// SeverityData: acknowledged data may be lost or is not there.
	SeverityData Severity = iota
	// SeverityWrites: no member takes writes, or they wait.
	SeverityWrites
	// SeverityOperator: the operator cannot look after the cluster.
	SeverityOperator
	// SeverityMembers: a member is missing or not well.
	SeverityMembers
	// SeverityHint: a permission, a limit, or a field of the spec. Databases run meanwhile.
	SeverityHint
)

// severities ranks each reason that Degraded can have.
var severities = map[string]Severity{
	ReasonPromotionNotProven: SeverityData,
	ReasonRecoveryFailed:     SeverityData,
	ReasonCommitsUncovered:   SeverityData,

	ReasonNoPrimary:               SeverityWrites,
	ReasonWriteFailed:             SeverityWrites,
	ReasonAcknowledgementsMissing: SeverityWrites,
	ReasonRecoveryStuck:           SeverityWrites,

	ReasonCALost:    SeverityOperator,
	ReasonCAInvalid: SeverityOperator,

	ReasonNewerRecords:    SeverityOperator,
	ReasonRecordsTooLarge: SeverityOperator,

	ReasonMemberMissing:      SeverityMembers,
	ReasonMemberUnreachable:  SeverityMembers,
	ReasonMemberUntrusted:    SeverityMembers,
	ReasonReplicationBroken:  SeverityMembers,
	ReasonApplierBehind:      SeverityMembers,
	ReasonBootFailed:         SeverityMembers,
	ReasonVolumeNotMade:      SeverityMembers,
	ReasonDiskNearlyFull:     SeverityMembers,
	ReasonTooManyConnections: SeverityMembers,
	ReasonRollingStopped:     SeverityMembers,
	ReasonSnapshotFailed:     SeverityMembers,
	ReasonClockSkew:          SeverityMembers,
	ReasonForeignReplica:     SeverityMembers,
	ReasonMemberCrashing:     SeverityMembers,
	ReasonInstanceRestarting: SeverityMembers,
	ReasonActionFailing:      SeverityMembers,

	ReasonNotPermitted:              SeverityHint,
	ReasonInvalidSpec:               SeverityHint,
	ReasonWrongAccount:              SeverityHint,
	ReasonCredentialsMissing:        SeverityHint,
	ReasonCredentialsInvalid:        SeverityHint,
	ReasonCloudSilent:               SeverityHint,
	ReasonSnapshotsUnknown:          SeverityHint,
	ReasonInstanceStatusUnknown:     SeverityHint,
	ReasonReleaseKeysExpire:         SeverityHint,
	ReasonExporterUnavailable:       SeverityHint,
	ReasonDownloadMissing:           SeverityHint,
	ReasonInsufficientCapacity:      SeverityHint,
	ReasonQuotaExceeded:             SeverityHint,
	ReasonWaitingForDependency:      SeverityHint,
	ReasonRecovering:                SeverityHint,
	ReasonObjectRefused:             SeverityHint,
	ReasonForeignResource:           SeverityHint,
	ReasonTagMissing:                SeverityHint,
	ReasonSettingRefused:            SeverityHint,
	ReasonPasswordRefused:           SeverityHint,
	ReasonVolumeModificationLimited: SeverityHint,
	ReasonMaintenance:               SeverityHint,
	ReasonSwitchoverRefused:         SeverityHint,
	ReasonDeletionProtected:         SeverityHint,
	ReasonDeleting:                  SeverityHint,
	ReasonReconciling:               SeverityHint,
}

// SeverityOf ranks a reason of Degraded. One that is not ranked is a hint.
func SeverityOf(reason string) Severity {
	if severity, ranked := severities[reason]; ranked {
		return severity
	}
	return SeverityHint
}
