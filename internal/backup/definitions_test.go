package backup

import "testing"

// TestDefinitionSum is the same for tables that are the same, and only for them.
func TestDefinitionSum(t *testing.T) {
	const table = "CREATE TABLE `t` (\n  `a` int NOT NULL AUTO_INCREMENT,\n  `b` int DEFAULT NULL,\n  PRIMARY KEY (`a`),\n  KEY `x` (`b`),\n  KEY `y` (`b`,`a`)\n) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4"
	for name, row := range map[string]struct {
		other string
		same  bool
	}{
		"the same":                 {table, true},
		"a check":                  {"CREATE TABLE `t` (\n  `a` int NOT NULL AUTO_INCREMENT,\n  `b` int DEFAULT NULL,\n  PRIMARY KEY (`a`),\n  KEY `x` (`b`),\n  KEY `y` (`b`,`a`),\n  CONSTRAINT `c` CHECK ((`b` > 0))\n) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4", false},
		"another counter":          {"CREATE TABLE `t` (\n  `a` int NOT NULL AUTO_INCREMENT,\n  `b` int DEFAULT NULL,\n  PRIMARY KEY (`a`),\n  KEY `x` (`b`),\n  KEY `y` (`b`,`a`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", true},
		"another order of keys":    {"CREATE TABLE `t` (\n  `a` int NOT NULL AUTO_INCREMENT,\n  `b` int DEFAULT NULL,\n  PRIMARY KEY (`a`),\n  KEY `y` (`b`,`a`),\n  KEY `x` (`b`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", true},
		"another order of columns": {"CREATE TABLE `t` (\n  `b` int DEFAULT NULL,\n  `a` int NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (`a`),\n  KEY `x` (`b`),\n  KEY `y` (`b`,`a`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", false},
		"a key less":               {"CREATE TABLE `t` (\n  `a` int NOT NULL AUTO_INCREMENT,\n  `b` int DEFAULT NULL,\n  PRIMARY KEY (`a`),\n  KEY `x` (`b`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", false},
		"another default":          {"CREATE TABLE `t` (\n  `a` int NOT NULL AUTO_INCREMENT,\n  `b` int DEFAULT '1',\n  PRIMARY KEY (`a`),\n  KEY `x` (`b`),\n  KEY `y` (`b`,`a`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", false},
	} {
		if got := definitionSum(row.other) == definitionSum(table); got != row.same {
			t.Errorf("%s: the same is %t", name, got)
		}
	}
	if definitionSum("CREATE TABLE `t` (\n  `a` int,\n  CONSTRAINT `c` CHECK ((`a` > 0))\n)") != definitionSum("CREATE TABLE `t` (\n  `a` int,\n  CONSTRAINT `c` CHECK ((a > 0))\n)") {
		t.Error("names without quotes in an expression make another table")
	}
}
