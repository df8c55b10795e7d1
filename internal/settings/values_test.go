package settings

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestAliases: both names of a variable lead to the present one, and no other name does.
func TestAliases(t *testing.T) {
	for name, want := range map[string]string{
		"slave_parallel_workers": "replica_parallel_workers", "log_slow_slave_statements": "log_slow_replica_statements", "sync_master_info": "sync_source_info",
		"binlog_rotate_encryption_master_key_at_startup": "binlog_rotate_encryption_master_key_at_startup", "replica_parallel_workers": "replica_parallel_workers",
		"validate_password.length": "validate_password.length", "slave_of_nobody": "slave_of_nobody",
	} {
		if got := Canonical(name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
	if len(aliases()) < 20 {
		t.Errorf("%d aliases", len(aliases()))
	}
	both := map[string]string{"log_slow_slave_statements": "ON", "log_slow_replica_statements": "OFF", "slave_net_timeout": "4"}
	if got := ByVariable(both); !maps.Equal(got, map[string]string{"log_slow_replica_statements": "OFF", "replica_net_timeout": "4"}) {
		t.Errorf("%v", got)
	}
}

// TestWhatIsNotTakenIsIgnored: in what members get, start with and are made with. Everything else of the spec is as it was.
func TestWhatIsNotTakenIsIgnored(t *testing.T) {
	spec := map[string]string{
		"binlog_error_action": "IGNORE_ERROR", "port": "3307", "max_allowed_packet": "1M", "log_output": "TABLE", // accepted before there was a rule
		"log_slow_slave_statements": "ON", "log_slow_replica_statements": "OFF",
		"sync_binlog": "1", "back_log": "100", "lower_case_table_names": "1", "validate_password.length": "12",
	}
	whys := NotTaken(spec)
	if got := strings.Join(slices.Sorted(maps.Keys(whys)), " "); got != "binlog_error_action log_output log_slow_slave_statements max_allowed_packet port" {
		t.Errorf("%v", whys)
	}
	for name, why := range whys {
		if !strings.Contains(why, name) {
			t.Errorf("%s is not named: %s", name, why)
		}
	}
	if got, want := ForMembers(spec), map[string]string{"log_slow_replica_statements": "OFF", "back_log": "100", "validate_password.length": "12"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := ForLaunch("9.7", spec), map[string]string{"log_slow_replica_statements": "OFF", "back_log": "100"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := AtCreation(spec); !maps.Equal(got, map[string]string{"lower_case_table_names": "1"}) {
		t.Errorf("%v", got)
	}
}

// TestCharacterSetsAndCollations: where they contradict each other the collation counts, which sets both.
func TestCharacterSetsAndCollations(t *testing.T) {
	for _, row := range []struct {
		set, collation string
		agree          bool
	}{
		{"latin1", "utf8mb4_bin", false}, {"utf8mb4", "utf8mb3_general_ci", false}, {"utf8", "utf8mb4_bin", false}, {"latin1", "latin2_bin", false},
		{"latin1", "latin1_bin", true}, {"UTF8MB4", "utf8mb4_0900_ai_ci", true}, {"utf8", "utf8mb3_bin", true}, {"utf8mb3", "utf8_general_ci", true}, {"binary", "binary", true},
	} {
		for _, of := range []string{"server", "database", "connection"} {
			spec := map[string]string{"character_set_" + of: row.set, "collation_" + of: row.collation}
			if got := len(ForMembers(spec)) == 2; got != row.agree {
				t.Errorf("%s with %s: members get %v", row.set, row.collation, ForMembers(spec))
			}
			if ForMembers(spec)["collation_"+of] != row.collation {
				t.Errorf("%s with %s: members get %v", row.set, row.collation, ForMembers(spec))
			}
		}
	}
}
