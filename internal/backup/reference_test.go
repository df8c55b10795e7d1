package backup

import (
	"strings"
	"testing"
)

// TestReferenceSystemsOfMySQLAreNotCarried while they are as MySQL brings them. Once one was replaced all are carried; either way the
// restored server has the same.
func TestReferenceSystemsOfMySQLAreNotCarried(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	const ask = "SELECT COUNT(*), SUM(CRC32(CONCAT_WS(';', SRS_ID, SRS_NAME, COALESCE(ORGANIZATION, '-'), COALESCE(ORGANIZATION_COORDSYS_ID, '-'), DEFINITION, COALESCE(DESCRIPTION, '-')))) FROM information_schema.ST_SPATIAL_REFERENCE_SYSTEMS"
	const definition = ` DEFINITION 'GEOGCS["x",DATUM["y",SPHEROID["z",6378137,298.257223563]],PRIMEM["Greenwich",0],UNIT["degree",0.017453292519943278],AXIS["Lat",NORTH],AXIS["Lon",EAST]]'`
	sql(t, from, "CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY); INSERT INTO s.t VALUES (1); CREATE SPATIAL REFERENCE SYSTEM 1000001 NAME 'mine' ORGANIZATION 'me' IDENTIFIED BY 7"+definition)
	carried := func() (all definitions, bytes int64) {
		t.Helper()
		o := w.options(t, from)
		m, err := patiently(t, o)
		must(t, err)
		r := w.restore(t, o, from)
		must(t, r.unpackJSON(t.Context(), "definitions", m.Definitions, maxDefinitions, &all))
		return all, m.Definitions.Stored()
	}

	all, bytes := carried()
	if len(all.ReferenceSystems) != 1 || all.ReferenceSystems[0].ID != 1000001 || bytes > 16<<10 {
		t.Errorf("carried are %d spatial reference systems, in %d bytes; the sum of those that this release of MySQL brings is %s: add it to builtInSums", len(all.ReferenceSystems), bytes, all.SumOfBuiltIn())
	}
	target, _, left := w.roundTrip(t, from, nil)
	if want, got := sql(t, from, ask), sql(t, target, ask); got != want || len(left) > 0 {
		t.Errorf("restored are %s of %s; left out: %v", got, want, left)
	}

	sql(t, from, "CREATE OR REPLACE SPATIAL REFERENCE SYSTEM 4326 NAME 'replaced' ORGANIZATION 'EPSG' IDENTIFIED BY 4326"+definition)
	if all, _ := carried(); len(all.ReferenceSystems) < 5000 {
		t.Errorf("one was replaced, and %d are carried", len(all.ReferenceSystems))
	}
	target, _, left = w.roundTrip(t, from, nil)
	if want, got := sql(t, from, ask), sql(t, target, ask); got != want || len(left) > 0 {
		t.Errorf("after one was replaced, restored are %s of %s; left out: %v", got, want, left)
	}
	if got := strings.TrimSpace(sql(t, target, "SELECT SRS_NAME FROM information_schema.ST_SPATIAL_REFERENCE_SYSTEMS WHERE SRS_ID = 4326")); got != "replaced" {
		t.Errorf("it is %s", got)
	}
}
