package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// otherConditions are the reasons that Degraded never has.
var otherConditions = []string{
	ReasonProvisioning, ReasonBootstrapping, ReasonReplicating, ReasonStable, ReasonAllMembersReady, ReasonMembersNotReady, ReasonWriteSucceeded,
	ReasonNotProbed, ReasonHealthy, ReasonCloudAnswered, ReasonAbandoned, ReasonRecovered, ReasonArchiving, ReasonArchiveStarting, ReasonArchiveBehind,
	ReasonArchiveGap, ReasonArchiveBaseNeeded, ReasonArchiveUnread, ReasonArchiveTimeAhead, ReasonBackupSucceeded, ReasonBackupFailed, ReasonBackupVanished, ReasonBackupOverdue,
	ReasonVerificationFailed, ReasonVerificationOverdue, ReasonNoBackupYet, ReasonBackupDue, ReasonBackupsPaused, ReasonHibernated, ReasonWaking, ReasonRolling, ReasonCoolDown,
	ReasonMemberRebuilt, ReasonRebuildRefused, ReasonLossAccepted, ReasonLossRefused,
}

// TestReasonsAreRanked: whoever adds a reason says how severe it is.
func TestReasonsAreRanked(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "constants.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) == 0 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		reason, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, ranked := severities[reason]; ranked == slices.Contains(otherConditions, reason) {
			t.Errorf("%s: rank it in severities, or list it in otherConditions", spec.Names[0].Name)
		}
		return true
	})
}

func TestSeverityOf(t *testing.T) {
	order := []string{ReasonPromotionNotProven, ReasonNoPrimary, ReasonCALost, ReasonMemberUnreachable, ReasonNotPermitted}
	if !slices.IsSortedFunc(order, func(a, b string) int { return int(SeverityOf(a)) - int(SeverityOf(b)) }) || SeverityOf("Unheard") != SeverityHint {
		t.Error("the order is not data, writes, operator, members, hints")
	}
}
