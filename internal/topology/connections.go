package topology

import (
	"fmt"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	// connectionsRoom is by how many connections, at least, a full server's limit is raised at a time.
	connectionsRoom = 100
	// connectionsTimes is how many times its own limit, and connectionsMost how many connections MySQL takes at the most.
	connectionsTimes, connectionsMost = 4, 100_000
	// connectionsShare of the limit must be free before a server is called full no more, and its own limit counts again.
	connectionsShare = 16
)

// letReplicasIn raises the limit of connections of a server that refuses its replicas because it is full. While commits wait
// for acknowledgements, clients give up and come back, and each leaves a connection behind that waits on; when the replicas
// are back nothing is left for them, whose acknowledgements alone would end all that waiting. When they are connected and
// the others have gone, the server's own limit counts again.
func (p *acks) letReplicasIn() {
	for _, m := range p.ordered() {
		if !m.verified() || m.SQL.MaxConnections == 0 {
			continue
		}
		rec, refused := p.plan.Records.Members[m.Name], p.refusedBy(m)
		own := rec.MaxConnections
		switch {
		case refused != "" && isFull(m.SQL.Connections, m.SQL.MaxConnections):
			if own == 0 {
				rec.MaxConnections = m.SQL.MaxConnections
				p.plan.Records.Members[m.Name] = rec
			}
			most := min(connectionsTimes*rec.MaxConnections+connectionsRoom, connectionsMost)
			limit := min(m.SQL.MaxConnections+max(connectionsRoom, rec.MaxConnections/2), most)
			text := fmt.Sprintf("%s: all of its %d connections are taken and it refuses %s, without whose acknowledgements writes may wait for ever", m.Name, m.SQL.MaxConnections, refused)
			if limit <= m.SQL.MaxConnections {
				p.degraded(v1alpha1.ReasonTooManyConnections, text+"; end some of them, or raise "+v1alpha1.SettingFields(maxConnections))
				continue
			}
			p.first(waitMySQL, SetMaxConnections{m.Name, limit})
			p.degraded(v1alpha1.ReasonTooManyConnections, fmt.Sprintf("%s; it takes %d until that one is back", text, limit))
		case own != 0 && m.SQL.MaxConnections <= p.ownLimit(own):
			rec.MaxConnections = 0 // it was started again, or somebody put it back
			p.plan.Records.Members[m.Name] = rec
		case own != 0 && refused == "" && !isFull(m.SQL.Connections, p.ownLimit(own)):
			p.retry(waitMySQL, SetMaxConnections{m.Name, p.ownLimit(own)})
		case own != 0:
			p.degraded(v1alpha1.ReasonTooManyConnections, fmt.Sprintf("%s: its clients hold nearly all of the %d connections that it is to take, and it takes %d until they have gone, so that its replicas are not refused; end some of them, or raise %s", m.Name, p.ownLimit(own), m.SQL.MaxConnections, v1alpha1.SettingFields(maxConnections)))
		}
	}
}

// isFull says whether hardly any connection of a server is left.
func isFull(taken, limit int) bool { return taken+limit/connectionsShare >= limit }

// maxConnections is the setting that limits a server's connections.
const maxConnections = "max_connections"

// ownLimit is what a server's limit is without our doing: the user's, or what it was before.
func (d Desired) ownLimit(before int) int {
	if wanted, err := strconv.Atoi(d.Settings[maxConnections]); err == nil && wanted > 0 {
		return wanted
	}
	return before
}

// refusedBy names a replica that a full server refuses, "" for none.
func (o Observed) refusedBy(m *Member) string {
	for _, other := range o.ordered() {
		r := other.SQL.Replication
		if other != m && other.verified() && r != nil && r.IOState != ioOn && r.SourceIsFull && o.memberAt(r.SourceHost) == m {
			return other.Name
		}
	}
	return ""
}
