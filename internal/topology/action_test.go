package topology

import "testing"

func TestIdentity(t *testing.T) {
	row := func(epoch uint64, voters ...string) Membership { return Membership{Epoch: epoch, Voters: voters} }
	for name, c := range map[string]struct {
		a, b Action
		same bool
	}{
		"another member":                       {Demote{Member: "a"}, Demote{Member: "b"}, false},
		"another action":                       {Demote{Member: "a"}, Fence{Member: "a"}, false},
		"another action of the same shape":     {AdmitVoter{Member: "a"}, RemoveAllVoters{Member: "a"}, false},
		"another incarnation":                  {LaunchInstance{Member: "a", Incarnation: 1}, LaunchInstance{Member: "a", Incarnation: 2}, false},
		"another subnet for the same instance": {LaunchInstance{Member: "a", SubnetID: "x"}, LaunchInstance{Member: "a", SubnetID: "y"}, true},
		"the version of before":                {LaunchInstance{Member: "a"}, LaunchInstance{Member: "a", Previous: true}, false},
		"a promotion that has more to apply":   {Promote{Member: "a", MustHold: "u:1-5", Next: row(4, "a")}, Promote{Member: "a", MustHold: "u:1-6", Next: row(5, "a")}, true},
		"other voters to confirm":              {SettleVoters{Member: "a", Next: row(4, "a", "b")}, SettleVoters{Member: "a", Next: row(4, "a")}, false},
		"the same voters in a later row":       {SettleVoters{Member: "a", Next: row(4, "a", "b")}, SettleVoters{Member: "a", Next: row(5, "a", "b")}, true},
		"another to hand over to":              {Switchover{Member: "a", To: "b"}, Switchover{Member: "a", To: "c"}, false},
		"another value of a setting":           {ApplySettings{Member: "a", Want: map[string]string{"x": "1"}}, ApplySettings{Member: "a", Want: map[string]string{"x": "2"}}, false},
		"the same value of a setting":          {ApplySettings{Member: "a", Want: map[string]string{"x": "1"}}, ApplySettings{Member: "a", Want: map[string]string{"x": "1"}}, true},
		"other settings to put back":           {PinSettings{Member: "a", Settings: map[string]string{"x": "1"}}, PinSettings{Member: "a", Settings: map[string]string{"y": "1"}}, false},
		"another voter that loses its vote":    {RemoveVoter{Member: "a", Primary: "c"}, RemoveVoter{Member: "b", Primary: "c"}, false},
	} {
		if same := Identity(c.a) == Identity(c.b); same != c.same {
			t.Errorf("%s: the same attempt: %v", name, same)
		}
	}
}
