package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
)

// TestABackupOfAnOlderRelease has views and stored programs in the dump, and is restored as well.
func TestABackupOfAnOlderRelease(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	sql(t, from, "CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY); INSERT INTO s.t VALUES (1), (2); CREATE USER app; GRANT ALL ON s.* TO app; CREATE DEFINER=app FUNCTION s.f(x INT) RETURNS INT DETERMINISTIC RETURN x + 1; CREATE DEFINER=app VIEW s.v AS SELECT s.f(id) AS n FROM s.t; GRANT SELECT ON s.v TO app; CREATE TRIGGER s.tr BEFORE INSERT ON s.t FOR EACH ROW SET NEW.id = NEW.id")
	o := w.options(t, from)
	genuine := o.Program
	o.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		arguments = slices.Clone(arguments)
		for i, a := range arguments {
			switch a {
			case "--skip-triggers":
				arguments[i] = "--triggers"
			case "--ignore-views":
				arguments[i] = "--routines"
			}
		}
		return genuine(ctx, name, arguments...)
	}
	m, err := patiently(t, o)
	must(t, err)
	m.FormatVersion, m.Definitions, m.LeftOut = formatInDump, Stream{}, nil
	text, err := json.Marshal(m)
	must(t, err)
	sum := sha256.Sum256(text)
	document, err := json.Marshal(sealed{SHA256: hex.EncodeToString(sum[:]), Manifest: text})
	must(t, err)
	_, err = o.Place.Store.Put(t.Context(), o.Place.Folder(o.Folder)+"/"+manifestName, bytes.NewReader(document))
	must(t, err)
	target := w.fresh(t)
	_, err = Restore(t.Context(), w.restore(t, o, target))
	must(t, err)
	if got := sql(t, target, "SELECT GROUP_CONCAT(n ORDER BY n) FROM s.v; SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 's'; SELECT COUNT(*) FROM mysql.tables_priv WHERE Table_name = 'v'"); got != "2,3\n1\n1" {
		t.Errorf("restored is %s", got)
	}
}
