package observe

import (
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// channelOption is an option of a replica's channel besides the address of the source, as the operator sets it.
type channelOption struct {
	// name is that of CHANGE REPLICATION SOURCE TO, and value what it is set to.
	name, value string
	// column shows it, of a table of performance_schema, as shown. All three are SQL.
	table, column, shown string
}

const (
	connectionConfiguration = "replication_connection_configuration"
	applierConfiguration    = "replication_applier_configuration"
)

// generatesKeys is the difference with which an applier creates other tables than the source.
const generatesKeys = "REQUIRE_TABLE_PRIMARY_KEY_CHECK is GENERATE"

// channelOptions are all that a replica's channel has, but for IGNORE_SERVER_IDS, which MySQL does not take with GTIDs (error 3139). With a
// heartbeat every second and replica_net_timeout=4 a silent source shows after 4 s (fact 14), a source that comes back is found within the
// second of SOURCE_CONNECT_RETRY, and retries never end (SOURCE_RETRY_COUNT is 0).
var channelOptions = []channelOption{
	{"SOURCE_USER", quoted(mysql.ReplicationUser), connectionConfiguration, "USER", quoted(mysql.ReplicationUser)},
	{"SOURCE_AUTO_POSITION", "1", connectionConfiguration, "AUTO_POSITION", "'1'"},
	{"SOURCE_SSL", "1", connectionConfiguration, "SSL_ALLOWED", "'YES'"},
	{"SOURCE_SSL_CA", quoted(mysql.TLSDir + "ca.pem"), connectionConfiguration, "SSL_CA_FILE", quoted(mysql.TLSDir + "ca.pem")},
	{"SOURCE_SSL_CERT", quoted(mysql.TLSDir + "current.pem"), connectionConfiguration, "SSL_CERTIFICATE", quoted(mysql.TLSDir + "current.pem")},
	{"SOURCE_SSL_KEY", quoted(mysql.TLSDir + "member.key"), connectionConfiguration, "SSL_KEY", quoted(mysql.TLSDir + "member.key")},
	{"SOURCE_SSL_VERIFY_SERVER_CERT", "1", connectionConfiguration, "SSL_VERIFY_SERVER_CERTIFICATE", "'YES'"},
	{"SOURCE_SSL_CAPATH", "''", connectionConfiguration, "SSL_CA_PATH", "''"},
	{"SOURCE_SSL_CIPHER", "''", connectionConfiguration, "SSL_CIPHER", "''"},
	{"SOURCE_SSL_CRL", "''", connectionConfiguration, "SSL_CRL_FILE", "''"},
	{"SOURCE_SSL_CRLPATH", "''", connectionConfiguration, "SSL_CRL_PATH", "''"},
	{"SOURCE_TLS_VERSION", "''", connectionConfiguration, "TLS_VERSION", "''"},
	{"SOURCE_TLS_CIPHERSUITES", "NULL", connectionConfiguration, "TLS_CIPHERSUITES", "NULL"},
	{"SOURCE_PUBLIC_KEY_PATH", "''", connectionConfiguration, "PUBLIC_KEY_PATH", "''"},
	{"GET_SOURCE_PUBLIC_KEY", "0", connectionConfiguration, "GET_PUBLIC_KEY", "'NO'"},
	{"SOURCE_BIND", "''", connectionConfiguration, "NETWORK_INTERFACE", "''"},
	{"NETWORK_NAMESPACE", "''", connectionConfiguration, "NETWORK_NAMESPACE", "''"},
	{"SOURCE_COMPRESSION_ALGORITHMS", "'uncompressed'", connectionConfiguration, "COMPRESSION_ALGORITHM", "'uncompressed'"},
	{"SOURCE_ZSTD_COMPRESSION_LEVEL", "3", connectionConfiguration, "ZSTD_COMPRESSION_LEVEL", "3"},
	{"SOURCE_HEARTBEAT_PERIOD", "1", connectionConfiguration, "HEARTBEAT_INTERVAL", "1"},
	{"SOURCE_CONNECT_RETRY", "1", connectionConfiguration, "CONNECTION_RETRY_INTERVAL", "1"},
	{"SOURCE_RETRY_COUNT", "0", connectionConfiguration, "CONNECTION_RETRY_COUNT", "0"},
	{"SOURCE_CONNECTION_AUTO_FAILOVER", "0", connectionConfiguration, "SOURCE_CONNECTION_AUTO_FAILOVER", "'0'"},
	{"GTID_ONLY", "0", connectionConfiguration, "GTID_ONLY", "'0'"},
	{"REQUIRE_ROW_FORMAT", "0", applierConfiguration, "REQUIRE_ROW_FORMAT", "'NO'"},
	{"ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS", "OFF", applierConfiguration, "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_TYPE", "'OFF'"},
	{"SOURCE_DELAY", "0", applierConfiguration, "DESIRED_DELAY", "0"},
	{"PRIVILEGE_CHECKS_USER", "NULL", applierConfiguration, "PRIVILEGE_CHECKS_USER", "NULL"},
	{"REQUIRE_TABLE_PRIMARY_KEY_CHECK", "STREAM", applierConfiguration, "REQUIRE_TABLE_PRIMARY_KEY_CHECK", "'STREAM'"},
}

// applying are those that hold up or change what an applier does with what was received. They can be set while the receiver goes on, so that
// the relay log stays.
var applying = []string{"SOURCE_DELAY", "PRIVILEGE_CHECKS_USER", "REQUIRE_TABLE_PRIMARY_KEY_CHECK"}

// whole are the options of a connection that MySQL changes only while neither the receiver nor the applier runs (error 3081). It changes the others while
// the applier runs, and keeps the relay log then (fact 12).
var whole = []string{"SOURCE_AUTO_POSITION", "SOURCE_CONNECTION_AUTO_FAILOVER", "GTID_ONLY"}

// ChannelOptions are all options of a replica's channel as they are to be, for CHANGE REPLICATION SOURCE TO. ApplyingOptions are those that can
// be set while its receiver runs, ReceivingOptions those that can be set while its applier runs. AddressOptions are those that MySQL sets to its own default with another SOURCE_HOST or SOURCE_PORT.
var (
	ChannelOptions   = settingOf(channelOptions)
	ApplyingOptions  = settingOf(named(applying))
	ReceivingOptions = settingOf(receiving())
	AddressOptions   = settingOf(named([]string{"SOURCE_HEARTBEAT_PERIOD"}))
)

// ChannelDiffers is an SQL expression: the options of the channel without a name that are not as they are to be, a line for each; empty when all
// are, or when there is no such channel. ApplyingDiffers and ReceivingDiffers are those of ApplyingOptions and ReceivingOptions alone.
var (
	ChannelDiffers   = differing(channelOptions)
	ApplyingDiffers  = differing(named(applying))
	ReceivingDiffers = differing(receiving())
)

func quoted(text string) string { return "'" + text + "'" }

// named are the options of these names.
func named(names []string) []channelOption {
	return slices.DeleteFunc(slices.Clone(channelOptions), func(o channelOption) bool { return !slices.Contains(names, o.name) })
}

// receiving are the options of the connection without those of whole.
func receiving() []channelOption {
	return slices.DeleteFunc(slices.Clone(channelOptions), func(o channelOption) bool {
		return o.table != connectionConfiguration || slices.Contains(whole, o.name)
	})
}

// settingOf lists options as CHANGE REPLICATION SOURCE TO takes them.
func settingOf(options []channelOption) string {
	var terms []string
	for _, o := range options {
		terms = append(terms, o.name+" = "+o.value)
	}
	return strings.Join(terms, ", ")
}

// differing returns the expression that finds those that are not as they are to be.
func differing(options []channelOption) string {
	terms := map[string][]string{}
	for _, o := range options {
		terms[o.table] = append(terms[o.table], "IF("+o.column+" <=> "+o.shown+", NULL, CONCAT('"+o.name+" is ', IFNULL("+o.column+", 'NULL')))")
	}
	of := func(table string) string {
		return "(SELECT NULLIF(CONCAT_WS('\\n', " + strings.Join(terms[table], ", ") + "), '') FROM performance_schema." + table + " WHERE CHANNEL_NAME = '')"
	}
	var parts []string
	for _, table := range []string{connectionConfiguration, applierConfiguration} {
		if len(terms[table]) > 0 {
			parts = append(parts, of(table))
		}
	}
	return "CONVERT(CONCAT_WS('\\n', " + strings.Join(parts, ", ") + ") USING utf8mb4)"
}
