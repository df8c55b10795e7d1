// Package backup takes backups of a cluster and brings them back. It runs in pods; the operator itself never touches what
// is stored.
//
// What a backup is made of lies in a folder of its own, and its manifest is written last: a folder without a manifest is
// no backup, whatever else is in it.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

const (
	// formatVersion is raised when an older release could not read a backup any more.
	formatVersion = 2
	// formatInDump is the format of backups whose views and stored programs are in the dump.
	formatInDump = 1
	// manifestName is the last object of a backup.
	manifestName = "manifest.json"
	// removingName is the last object of a backup that is being removed: who removes it may be cut off.
	removingName = "removing"
	// maxManifest bounds what is read as a manifest, in bytes: some 100,000 tables.
	maxManifest = 64 << 20
	// folderTime begins the name of a backup's folder, so that folders are in the order of their time.
	folderTime = "20060102T150405Z"
)

// ErrCorrupt: what is stored is not what was stored: it is too short, too long or altered.
var ErrCorrupt = errors.New("the backup is damaged")

// Manifest says what a backup is.
type Manifest struct {
	// FormatVersion is the version of this format.
	FormatVersion int `json:"formatVersion"`
	// Backup is the name of the MySQLBackup, Schedule of the schedule that made it.
	Backup   string `json:"backup"`
	Schedule string `json:"schedule,omitempty"`
	// Base is true for one that the archive of binary logs begins with. Schedule is then whose retention deletes it.
	Base bool `json:"base,omitempty"`
	// Namespace, Cluster and ClusterUID name the cluster.
	Namespace  string `json:"namespace"`
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"clusterUID"`
	Source
	// StartedAt is when the dump began, TakenAt the moment that it shows, CompletedAt when all of it was stored.
	StartedAt   time.Time `json:"startedAt"`
	TakenAt     time.Time `json:"takenAt"`
	CompletedAt time.Time `json:"completedAt"`
	// GTIDSet is every transaction that is in the backup.
	GTIDSet string `json:"gtidSet"`
	BinlogPlace
	// Heartbeat is the newest write of the operator's probe that is in the backup.
	Heartbeat *time.Time `json:"heartbeat,omitempty"`
	Streams
	// Tables are the tables with rows that the dump holds, counted in it.
	Tables []TableRows `json:"tables"`
	// Samples are tables whose contents were looked at on the server in the very moment of the dump.
	Samples []Sample `json:"samples,omitempty"`
}

// Source is the server that was dumped.
type Source struct {
	Member     string `json:"member"`
	ServerUUID string `json:"serverUUID"`
	// Version of MySQL on it.
	Version string `json:"version"`
	// LowerCaseTableNames is the variable of that name; empty in older backups.
	LowerCaseTableNames string `json:"lowerCaseTableNames,omitempty"`
	// PartialRevokes is the variable of that name, 0 or 1; empty in older backups.
	PartialRevokes string `json:"partialRevokes,omitempty"`
}

// BinlogPlace is where the server's own binary log was.
type BinlogPlace struct {
	BinlogFile     string `json:"binlogFile,omitempty"`
	BinlogPosition int64  `json:"binlogPosition,omitempty"`
}

// Streams are what a backup stores, and what it does not.
type Streams struct {
	// Dump is what mysqldump said, Accounts a JSON list of the statements that make the accounts.
	Dump     Stream `json:"dump"`
	Accounts Stream `json:"accounts"`
	// Definitions is a JSON document of what else there is: views, stored programs, tablespaces and so on.
	Definitions Stream `json:"definitions"`
	// LeftOut is what the server held and the backup does not carry, or a restore may not be able to make.
	LeftOut []podclient.LeftOut `json:"leftOut,omitempty"`
}

// TableRows is how many rows of a table a dump holds.
type TableRows struct {
	Database string `json:"database"`
	Table    string `json:"table"`
	Rows     uint64 `json:"rows"`
}

// Sample is what the server said of a table.
type Sample struct {
	TableRows
	// Checksum is that of CHECKSUM TABLE. It is comparable between servers of one series only. A table whose values mysqldump
	// does not write exactly has none.
	Checksum *uint64 `json:"checksum,omitempty"`
}

// sealed is how a manifest is stored: with the checksum of what it says, so that one flipped bit is noticed.
type sealed struct {
	SHA256   string          `json:"sha256"`
	Manifest json.RawMessage `json:"manifest"`
}

// Place is where the backups of one cluster are.
type Place struct {
	Store store.Store
	// Root is <namespace>/<cluster>/<uid>.
	Root string
}

// RootOf returns the folder of a cluster below the prefix of its destination.
func RootOf(namespace, cluster, uid string) string { return path.Join(namespace, cluster, uid) }

// FolderOf names the folder of a backup that began at a time. Names of MySQLBackups may come again, times do not.
func FolderOf(started time.Time, backup string) string {
	return started.UTC().Format(folderTime) + "-" + backup
}

// NameIn returns the name of the MySQLBackup whose folder it is.
func NameIn(folder string) string {
	_, name, _ := strings.Cut(folder, "-")
	return name
}

// Folder is the path of a backup's folder below the destination's prefix.
func (p Place) Folder(name string) string { return p.Root + "/backups/" + name }

// FolderAt returns the folder at a path below the destination's prefix; false when no backup of that name would be there.
func (p Place) FolderAt(path, backup string) (folder string, found bool) {
	folder, found = strings.CutPrefix(path, p.Folder(""))
	return folder, found && !strings.Contains(folder, "/") && strings.HasSuffix(folder, "-"+backup) && len(folder) == len(FolderOf(time.Time{}, backup))
}

// WriteManifest makes a backup out of what its folder holds.
func (p Place) WriteManifest(ctx context.Context, folder string, m Manifest) error {
	m.FormatVersion = formatVersion
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	sum := sha256.Sum256(text)
	document, err := json.MarshalIndent(sealed{SHA256: hex.EncodeToString(sum[:]), Manifest: text}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if _, err := p.Store.Put(ctx, p.Folder(folder)+"/"+manifestName, bytes.NewReader(document)); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return nil
}

// ReadManifest reads what a folder holds. store.ErrNotFound says that it is no backup, ErrCorrupt that it no longer says
// what was written.
func (p Place) ReadManifest(ctx context.Context, folder string) (Manifest, error) {
	document, err := store.ReadAll(ctx, p.Store, p.Folder(folder)+"/"+manifestName, maxManifest)
	if err != nil {
		return Manifest{}, fmt.Errorf("read the manifest: %w", err)
	}
	m, err := openManifest(document)
	if err != nil {
		return Manifest{}, fmt.Errorf("read the manifest of %s: %w", p.Store.URL(p.Folder(folder)), err)
	}
	return m, nil
}

func openManifest(document []byte) (Manifest, error) {
	var s sealed
	if err := json.Unmarshal(document, &s); err != nil {
		return Manifest{}, fmt.Errorf("%w: the manifest is no JSON: %w", ErrCorrupt, err)
	}
	var plain bytes.Buffer
	if err := json.Compact(&plain, s.Manifest); err != nil {
		return Manifest{}, fmt.Errorf("%w: the manifest is no JSON: %w", ErrCorrupt, err)
	}
	if sum := sha256.Sum256(plain.Bytes()); hex.EncodeToString(sum[:]) != s.SHA256 {
		return Manifest{}, fmt.Errorf("%w: the manifest's checksum is another", ErrCorrupt)
	}
	var m Manifest
	if err := json.Unmarshal(s.Manifest, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: the manifest is not one: %w", ErrCorrupt, err)
	}
	if m.FormatVersion < 1 || m.FormatVersion > formatVersion {
		return Manifest{}, fmt.Errorf("the backup has format %d; this release of the operator reads up to %d", m.FormatVersion, formatVersion)
	}
	return m, nil
}

// Folders lists the folders under backups/, the oldest first, whether they are backups or not.
func (p Place) Folders(ctx context.Context) ([]string, error) {
	folders, err := store.Folders(ctx, p.Store, p.Root+"/backups/")
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	return folders, nil
}
