package admin

import "testing"

func TestNamesOfHosts(t *testing.T) {
	if got := databasePattern(`my_d%b\`); got != `my\_d\%b\\` {
		t.Error(got)
	}
	for _, host := range []string{"", "a b", "a'", "-a", "a/b", "a:1"} {
		if checkHost(host) == nil {
			t.Errorf("%q is taken for a host", host)
		}
	}
	for _, host := range []string{"10.0.0.1", "fd00::1", "orders-0.orders.shop.svc"} {
		if err := checkHost(host); err != nil {
			t.Error(err)
		}
	}
}
