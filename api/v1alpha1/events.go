package v1alpha1

// Reasons of events that are no reasons of conditions. They are part of the API: alerts and scripts select by them.
const (
	// Actions on EC2, one for each member's resource.
	EventCreateSecurityGroup = "CreateSecurityGroup"
	EventDeleteSecurityGroup = "DeleteSecurityGroup"
	EventCreateVolume        = "CreateVolume"
	EventAttachVolume        = "AttachVolume"
	EventDetachVolume        = "DetachVolume"
	EventModifyVolume        = "ModifyVolume"
	EventRetireVolume        = "RetireVolume"
	EventDeleteVolume        = "DeleteVolume"
	EventTakeSnapshot        = "TakeSnapshot"
	EventDeleteSnapshot      = "DeleteSnapshot"
	EventLaunchInstance      = "LaunchInstance"
	EventStartInstance       = "StartInstance"
	EventStopInstance        = "StopInstance"
	EventTerminateInstance   = "TerminateInstance"

	// Actions on mysqld.
	EventSignCertificate           = "SignCertificate"
	EventAdopt                     = "Adopt"
	EventBootstrap                 = "Bootstrap"
	EventClone                     = "Clone"
	EventReplicate                 = "Replicate"
	EventResetRelayLog             = "ResetRelayLog"
	EventFence                     = "Fence"
	EventPromote                   = "Promote"
	EventDemote                    = "Demote"
	EventAdmitVoter                = "AdmitVoter"
	EventRemoveVoter               = "RemoveVoter"
	EventStandAlone                = "StandAlone"
	EventDisconnectStrangers       = "DisconnectStrangers"
	EventRestoreReplicationAccount = "RestoreReplicationAccount"
	EventAdoptHarmless             = "AdoptHarmless"
	EventRetireGTIDs               = "RetireGTIDs"
	EventPinSettings               = "PinSettings"
	EventApplySettings             = "ApplySettings"
	EventSetMaxConnections         = "SetMaxConnections"
	EventRestart                   = "Restart"
	EventEnsureDatabase            = "EnsureDatabase"

	// Changes of status: the phase (with the phase's name appended), the primary, and a change that goes from member to member.
	EventPhasePrefix       = "Phase"
	EventPrimary           = "Primary"
	EventRollingChangeDone = "RollingChangeDone"

	// Promotions, as status.lastPromotion.kind calls them.
	EventFailover   = "Failover"
	EventSwitchover = "Switchover"
	EventReopened   = "Reopened"

	// Objects and tags that somebody changed, and that the operator restored.
	EventRestoreRecords = "RestoreRecords"
	EventRestoreService = "RestoreService"
	EventRestoreTags    = "RestoreTags"

	// The lease of the operator.
	EventOtherInstallationLeads = "OtherInstallationLeads"
	EventLeaseIgnored           = "LeaseIgnored"

	// Backups and recovery.
	EventRecoveryNotStarted = "RecoveryNotStarted"
	EventArchiveIncomplete  = "ArchiveIncomplete"
	EventBackupNotStarted   = "BackupNotStarted"
	EventBackupJobStuck     = "BackupJobStuck"
	EventBackupFailed       = "BackupFailed"
	EventBackupDataLeft     = "BackupDataLeft"
	EventRemovalFailed      = "RemovalFailed"

	// EventUnarchivedLogRemoved: a binary log went that the archive does not hold, because the disk was almost full.
	EventUnarchivedLogRemoved = "UnarchivedLogRemoved"
)
