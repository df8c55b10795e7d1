// Package iam decides, as AWS's Identity and Access Management does, whether an identity policy allows a call: by its action, by every
// resource that the call touches, and by the condition keys that AWS fills in for each of them.
//
// What a call touches follows AWS's Service Authorization Reference ("Actions, resources, and condition keys for Amazon EC2"), and how
// a policy is read follows the IAM user guide ("Policy evaluation logic", "Condition operators"). A policy that uses what this
// package does not know is refused when it is parsed: nothing is ignored.
package iam

// AdministratorKeyID is the access key of those who arrange the lab's account. No policy limits it.
const AdministratorKeyID = "AKIANAIROBIADMIN0000"

// BackupKeyID is the access key of the lab's backup pods.
const BackupKeyID = "AKIANAIROBIBACKUP000"

// AccountID is that of the lab's own account.
const AccountID = "123456789012"
