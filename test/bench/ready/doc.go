// Package ready measures in the lab what the operator adds to the time that a cluster takes to become Ready: from the
// moment at which a MySQLCluster of three members is written until its condition Ready is true, minus what the members
// took by themselves for booting, initialising and CLONE, by their own clocks and their own words.
//
// What a member says of itself: systemd's time of its start, the stages that its bootstrap prints with the journal's
// time stamps, and performance_schema.clone_status. Members work side by side, so what counts is the longest chain: a
// member is up when it has booted, initialised and started mysqld; a CLONE begins when both it and its donor are up, and
// when the donor serves no other. All else is the operator's, Kubernetes's and EC2's.
package ready
