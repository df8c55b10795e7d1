package observe_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }
