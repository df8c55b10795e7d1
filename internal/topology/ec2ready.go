package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// join brings the members whose instances are up to the point where mysqld answers over verified TLS.
func (p *provisioning) join() {
	for _, m := range p.ordered() {
		v := p.views[m.Name]
		if v.Phase != v1alpha1.PhaseEC2Ready {
			continue
		}
		if v.Step = p.joinMember(m); !v.Step.Waits() || p.restarting(m) {
			v.Phase = v1alpha1.PhaseReplicating
		}
	}
}

// restarting says whether a member that has joined is away for a moment, as at the end of a CLONE or after a crash.
func (o Observed) restarting(m *Member) bool {
	in := m.CurrentInstance()
	if in == nil || o.Records.Members[m.Name].SignedInstance != in.ID || m.SilentSince.IsZero() {
		return false
	}
	return o.Now.Sub(m.SilentSince) < restartPatience
}

// joinMember plans a member's next step towards a verified connection and returns what it waits for.
func (p *provisioning) joinMember(m *Member) Step {
	in := m.CurrentInstance()
	switch m.SQL.Access {
	case AccessVerified:
		wanted := asked(p.CertificatesRenewedAt, m.SQL.CertificateIssuedAt, p.Now)
		if (m.SQL.CertificateRenewalDue || wanted) && in != nil {
			p.retry(renewalPause, SignCertificate{m.Name, in.ID, in.Incarnation, in.Address})
		}
		if wanted {
			p.plan.Rolling = Finding{v1alpha1.ReasonRolling, m.Name + ": its certificate is renewed"}
		}
		return Step{}
	case AccessUnverified:
		sign := SignCertificate{m.Name, in.ID, in.Incarnation, in.Address}
		if p.Records.Members[m.Name].SignedInstance == in.ID {
			// Signed already: the member installs it, or presents a key that was not the one that was signed.
			p.retry(waitMySQL, sign)
			if m.SQL.Reason != "" {
				return waits("waiting for its certificate to take effect: " + m.SQL.Reason)
			}
		}
		p.do(sign)
		return waits("signing its certificate")
	case AccessDenied:
		p.waitAtMost(waitEC2)
		p.degraded(v1alpha1.ReasonMemberUntrusted, fmt.Sprintf("%s: mysqld refuses the operator: %s", m.Name, m.SQL.Reason))
		return waits("mysqld refuses the operator: " + m.SQL.Reason)
	case AccessNone, AccessSilent, AccessRefused:
	}
	return p.unreached(m)
}

// unreached says what is known of a member whose mysqld does not answer, and how urgently to look again.
func (p *provisioning) unreached(m *Member) Step {
	pause := waitMySQL
	if !m.SilentSince.IsZero() && p.Now.Sub(m.SilentSince) > restartPatience {
		pause = waitEC2 // it is not about to answer: no second-by-second dialling for hours
	}
	p.waitAtMost(pause)
	message := "waiting for mysqld"
	if p.restarting(m) {
		message = "waiting for mysqld to come back"
	}
	if m.Boot.Stage != "" {
		message += " (" + m.Boot.String() + ")"
	}
	if !p.overdue(m) {
		return waits(message)
	}
	if m.SQL.Access == AccessSilent {
		p.degraded(v1alpha1.ReasonMemberUnreachable, p.unreachableAdvice(m))
		return waits("silent on port 3306 for more than 3 minutes")
	}
	p.degraded(v1alpha1.ReasonBootFailed, fmt.Sprintf("%s: its instance is up but mysqld does not answer (%s); see the instance's console output", m.Name, m.Boot))
	return waits(message)
}

func (st *state) unreachableAdvice(m *Member) string {
	group := "the groups of spec.aws.securityGroupIDs"
	if st.ManagedSecurityGroup {
		group = "security group " + orNone(st.SecurityGroup)
	}
	address := ""
	if in := m.CurrentInstance(); in != nil {
		address = in.Address
	}
	return fmt.Sprintf("%s: %s:%d is silent; %s. Check that %s admits the operator's pods (spec.aws.clientCIDRs or clientSecurityGroupIDs) and that a route leads from the pods to the subnet and back",
		m.Name, address, v1alpha1.MySQLPort, st.ec2Calls("its instance", "healthy"), group)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
