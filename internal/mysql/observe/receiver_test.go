package observe

import "testing"

func TestReceiverRetries(t *testing.T) {
	for errno, want := range map[int]bool{
		0: false, 2003: true, 2005: true, 2013: true, 2061: true, 1040: true, 1045: true, 1053: true, 3032: true,
		2020:  false, // an event larger than replica_max_allowed_packet
		1236:  false, // the source has purged what the replica needs
		13114: false, // the same, as of 8.0.22
		13117: false, // equal server UUIDs
		13121: false, // relay log write failure
	} {
		if receiverRetries(errno) != want {
			t.Errorf("error %d: want %v", errno, want)
		}
	}
}
