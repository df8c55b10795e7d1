package podclient

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// Definitions are what a server holds beside its tables, their rows and its accounts.
type Definitions struct {
	// ReferenceSystems are the spatial reference systems, those that MySQL brings too: they can be replaced.
	ReferenceSystems []ReferenceSystem `json:"referenceSystems,omitempty"`
	// BuiltInReferenceSystems is the sum of those that MySQL brings, where they are left out of ReferenceSystems.
	BuiltInReferenceSystems string `json:"builtInReferenceSystems,omitempty"`
	// Tablespaces are InnoDB's general ones.
	Tablespaces []Tablespace `json:"tablespaces,omitempty"`
	// SystemRows are the rows of MySQL's own tables that belong to the user.
	SystemRows []SystemRows `json:"systemRows,omitempty"`
	// Databases are the options of the databases.
	Databases []DatabaseOptions `json:"databases,omitempty"`
	// Programs are views and stored programs in an order in which they can be made, but for views, which may need each other.
	Programs []Program `json:"programs,omitempty"`
}

// ReferenceSystem is a spatial reference system.
type ReferenceSystem struct {
	ID             uint32  `json:"id"`
	Name           string  `json:"name"`
	Organization   *string `json:"organization,omitempty"`
	OrganizationID *uint32 `json:"organizationID,omitempty"`
	Definition     string  `json:"definition"`
	Description    *string `json:"description,omitempty"`
}

// delivered says whether the reference system is one that MySQL brings.
func (r ReferenceSystem) delivered() bool {
	return r.ID == 0 || r.Organization != nil && *r.Organization == "EPSG"
}

// builtInSums are the sums of the spatial reference systems that a new server has, by releases of MySQL.
var builtInSums = []string{
	"d75815fcdec67714b236dcbe68410ee4d76b787346b47daa7c529a046ee91bbc", // 9.7.4
}

// WithoutBuiltIn returns the definitions without the spatial reference systems that MySQL brings, if these are as a release brings
// them: a new server has them too. If one of them was replaced or dropped, or if their release is not known, all stay.
func (d Definitions) WithoutBuiltIn() Definitions {
	if sum := d.SumOfBuiltIn(); slices.Contains(builtInSums, sum) {
		d.ReferenceSystems, d.BuiltInReferenceSystems = d.OwnReferenceSystems(), sum
	}
	return d
}

// SumOfBuiltIn is a checksum of the spatial reference systems that MySQL brings, as they are here.
func (d Definitions) SumOfBuiltIn() string {
	sum := sha256.New()
	for _, r := range d.ReferenceSystems {
		if r.delivered() {
			// It cannot fail: there is nothing in it that JSON does not take.
			_ = json.NewEncoder(sum).Encode(r)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// OwnReferenceSystems are the spatial reference systems that MySQL does not bring.
func (d Definitions) OwnReferenceSystems() []ReferenceSystem {
	return slices.DeleteFunc(slices.Clone(d.ReferenceSystems), ReferenceSystem.delivered)
}

// Tablespace is a general tablespace of InnoDB. BlockSize is 0 unless it holds compressed tables; AutoextendSize is 0 by default.
type Tablespace struct {
	Name            string  `json:"name"`
	File            string  `json:"file"`
	BlockSize       uint64  `json:"blockSize,omitempty"`
	AutoextendSize  uint64  `json:"autoextendSize,omitempty"`
	Encrypted       bool    `json:"encrypted,omitempty"`
	EngineAttribute *string `json:"engineAttribute,omitempty"`
}

// SystemRows are the rows of a table of MySQL's own, NULL as nil.
type SystemRows struct {
	// Table is without its database where that is mysql.
	Table string      `json:"table"`
	Rows  [][]*string `json:"rows"`
}

// Title names the rows, for people.
func (r SystemRows) Title() string { return "the contents of " + qualified(r.Table) }

// DatabaseOptions are a database's, as SHOW CREATE DATABASE prints them.
type DatabaseOptions struct {
	Name       string `json:"name"`
	Definition string `json:"definition"`
	ReadOnly   bool   `json:"readOnly,omitempty"`
}

// ProgramKind says what a program is, as SHOW CREATE and DROP call it.
type ProgramKind string

// Kinds of programs.
const (
	KindLibrary   ProgramKind = "LIBRARY"
	KindFunction  ProgramKind = "FUNCTION"
	KindProcedure ProgramKind = "PROCEDURE"
	KindView      ProgramKind = "VIEW"
	KindTrigger   ProgramKind = "TRIGGER"
	KindEvent     ProgramKind = "EVENT"
)

// Program is a view or a stored program, with the session in which it has to be made to be the same.
type Program struct {
	Kind     ProgramKind `json:"kind"`
	Database string      `json:"database"`
	Name     string      `json:"name"`
	// Definer is user@host, both unquoted. A library has none.
	Definer string `json:"definer,omitempty"`
	// SQLMode to Collation are the session's, DatabaseCollation is what the database had when it was made. Views have no SQLMode
	// and no DatabaseCollation, only events have a TimeZone.
	SQLMode           string `json:"sqlMode,omitempty"`
	CharacterSet      string `json:"characterSet,omitempty"`
	Collation         string `json:"collation,omitempty"`
	DatabaseCollation string `json:"databaseCollation,omitempty"`
	TimeZone          string `json:"timeZone,omitempty"`
	// AlteredAt, in seconds since 1970, is when it was made or altered last, and of an event at most the second before its time is over:
	// MySQL makes none later. It is 0 for a view.
	AlteredAt int64 `json:"alteredAt,omitempty"`
	// Statement is in CharacterSet.
	Statement SQLText `json:"statement"`
	// Broken says why the server itself cannot use the view.
	Broken string `json:"broken,omitempty"`
}

// Title names the program, for people.
func (p Program) Title() string {
	return strings.ToLower(string(p.Kind)) + " " + p.Database + "." + p.Name
}

// definer is the account that Definer names; a library has none.
func (p Program) definer() (a conn.Account, has bool) {
	at := strings.LastIndexByte(p.Definer, '@')
	if at < 0 {
		return conn.Account{}, false
	}
	return conn.Account{User: p.Definer[:at], Host: p.Definer[at+1:]}, true
}

func (p Program) quoted() string { return conn.QuoteName(p.Database) + "." + conn.QuoteName(p.Name) }

// SQLText is the text of a statement in some character set. It is written to JSON as a string where it is UTF-8, so that people can
// read it.
type SQLText []byte

// MarshalJSON implements json.Marshaler.
func (t SQLText) MarshalJSON() ([]byte, error) {
	if utf8.Valid(t) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *SQLText) UnmarshalJSON(b []byte) error {
	var plain string
	if err := json.Unmarshal(b, &plain); err == nil {
		*t = SQLText(plain)
		return nil
	}
	var encoded struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(b, &encoded); err != nil {
		return fmt.Errorf("a statement is no text: %w", err)
	}
	*t = encoded.Base64
	return nil
}

// LeftOut is something of a server that a restore does not bring back.
type LeftOut struct {
	// What it is, for example "view shop.v" or "account `a`@`%`".
	What string `json:"what"`
	// Why it is not restored and what to do about it.
	Why string `json:"why"`
	// EndsReplay: a replay that begins with the dump ends at a change of it.
	EndsReplay bool `json:"endsReplay,omitempty"`
}

// String is the line for people.
func (l LeftOut) String() string { return l.What + ": " + l.Why }

// compareLeftOut orders them by name.
func compareLeftOut(a, b LeftOut) int {
	return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.Why, b.Why))
}
