// Package observe finds out how a cluster is: what EC2 shows of it, and what each mysqld answers.
package observe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// Cloud says what EC2 shows of a cluster.
type Cloud struct {
	*pass.Ports
}

// Database says what the mysqlds of a cluster answer.
type Database struct {
	*pass.Ports
}

// handle returns the SQL handle of a member's instance.
func (r *Database) handle(s *pass.Pass, member, instanceID, address string) *admin.Member {
	return admin.Open(r.SQL, mysql.Endpoint{
		Key:        s.UID() + "/" + member + "/" + instanceID,
		Address:    net.JoinHostPort(address, strconv.Itoa(v1alpha1.MySQLPort)),
		ServerName: resources.MemberDNSNames(s.Cluster, member, "")[0],
	}, s.Keys.Identity)
}

// DatabaseKey identifies what EnsureDatabase would make. Of the password it is a hash: 190 random bits cannot be guessed.
func DatabaseKey(s *pass.Pass) string {
	if s.Cluster.Spec.Database == nil {
		return ""
	}
	d := s.Cluster.Spec.Database
	words := []string{d.Name, d.OwnerName(), s.Keys.Password}
	if kept := d.PasswordRetention(); kept != v1alpha1.DefaultPasswordRetention {
		words = append(words, kept.String())
	}
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// DatabaseRequest identifies what EnsureDatabase is asked for: DatabaseKey, and whether it may take over an account.
func DatabaseRequest(s *pass.Pass) string {
	return DatabaseKey(s) + "/" + s.Cluster.Annotations[v1alpha1.AnnotationTakeOverAccount]
}

// What follows DatabaseKey in the record of a database: its owner carries the mark of its cluster, and has privileges on the literal name.
const (
	ownedRecord   = "/owned"
	literalRecord = "/literal"
)

// DatabaseRecord is the record of a database that is as it is wanted. literal: its owner has privileges on its literal name.
func DatabaseRecord(s *pass.Pass, literal bool) string {
	record := DatabaseKey(s) + ownedRecord
	if literal {
		record += literalRecord
	}
	return record
}

// GrantedLiterally says whether it is recorded that the owner has privileges on the database's literal name.
func GrantedLiterally(s *pass.Pass) bool {
	return strings.HasSuffix(s.Records().Database, literalRecord)
}

// MayTakeOver says whether the application's account becomes the cluster's own whoever made it: a person allows it, it came with the
// data that the cluster begins with, or it is recorded as made by an operator that did not mark it.
func MayTakeOver(s *pass.Pass) bool {
	recorded := s.Records().Database
	return s.Cluster.Annotations[v1alpha1.AnnotationTakeOverAccount] == s.Cluster.Spec.Database.OwnerName() ||
		recorded == "" && s.Cluster.Recovery() != nil || recorded != "" && !strings.Contains(recorded, ownedRecord)
}

// lostTag tells of a resource that is the cluster's and no longer says so. The operator's own policy in IAM does not let it tag
// what carries no cluster's tag: nobody could make anything his own that way.
func lostTag(s *pass.Pass, what, cannot string) string {
	return fmt.Sprintf("%s has lost the tag %s=%s; it is used, but cannot be %s until somebody puts the tag back", what, v1alpha1.TagClusterUID, s.UID(), cannot)
}
