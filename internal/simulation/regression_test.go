package simulation

import (
	"os"
	"testing"
)

// regression is a schedule in which an invariant was broken once, with what was wrong.
type regression struct {
	seed, schedule uint64
	was            string
}

// regressions are those in which voters acknowledged from disk. A change of the model or of the faults gives a schedule another story; then
// its row is only one more schedule.
var regressions = []regression{
	{1, 9, "two members, each promoted without the other, unseated one another for ever"},
	{1, 615, "after lost records two members never elected one of them again"},
	{1, 863, "a volume that could not be spared was lost"},
	{1, 3741, "who led was doubted for ever, and the GTIDs that a rebuilt member had lost were never used up"},
	{1, 9521, "a replica whose applier stopped after the last look passed for one that is well, by the model"},
	{1, 12754, "as in 3276, after a primary that was confirmed meanwhile"},
	{1, 12767, "asynchronous: a row that only a replica without a vote had received counted as never written, by the model"},
	{1, 15689, "somebody wrote to a server before the cluster had begun, which nobody has an account for"},
	{71, 11411, "the only other voter lacked what was purged, and the row of the primary waited for its acknowledgement"},
	{8, 611, "a member whose removal a forgotten operator had begun went on to acknowledge, and was neither removed nor rebuilt"},
	{8, 1826, "a member with a newer mysqld became the source of an older one, because its turn to be replaced had come when it was promoted"},
	{8, 4963, "the same at a hand-over for another reason"},
	{43, 611, "what an operator had seen before it was frozen passed for the end, by the model"},
	{101, 6272, "a member whose instance was replaced on the same volume counted twice among those that had acknowledged"},
	{1, 14938, "two former primaries each held what a lost volume may have held, too, by the model"},
	{1, 2228, "a rebuilt member was promoted while another still held transactions that it had lost, and gave their GTIDs to others"},
	{1, 14335, "what a member lacked that had the newest row was taken for unacknowledged, though nobody else had received that row and the primary before went on"},
	{1, 3276, "after lost records a primary was left alone since an epoch that a waiting row had already"},
	{2, 1019, "asynchronous: the member promoted last was known to nobody else, and another was opened beside it"},
	{2, 1203, "an errant voter neither acknowledged nor could leave, as the other replica's volume was lost"},
	{2, 1444, "asynchronous: as in 1019, after a frozen instance"},
	{11, 1940, "commits behind an admission that was cut off were released as if nobody had been admitted"},
	{12, 1781, "a newcomer was promoted before its admission was confirmed, with one acknowledgement too few"},
	{13, 1382, "a volume was lost in the middle of a change of the voters"},
	{13, 1678, "EC2 called an instance stopped that had been started since, and its vote was taken while it acknowledged"},
	{41, 101, "while EC2 was silent a part of lost records was saved, and a cluster was begun over a living one"},
	{31, 471, "a replica whose applier could not go on was pointed at the new primary for ever"},
	{1, 16529, "a voter that had fallen silent to leave was not heard again when another was lost, and writes waited for ever"},
	{1, 19786, "with the records it was forgotten that a newer mysqld had opened a volume, and nobody took its member back"},
	{1, 26289, "the spec that asked for a member to go was changed while its volume was being deleted, by the model"},
	{1, 30037, "what EC2 never showed attached passed for empty, and was deleted without the snapshot that is kept"},
	{1, 30428, "a cluster was sent to sleep before it was noted which version had opened its volumes, and all awoke with one that does not start"},
	{1, 29156, "a volume that was gone was noted once more by an operator which had been frozen, and its member stayed for ever"},
	{1, 37458, "what a rebuilt member had lost came back with a later primary, and it waited for ever for nobody to hold it"},
	{1, 68309, "the records of a cluster were lost in the middle of its beginning with a copy, which a person has to repeat, by the model"},
	{1, 76290, "with the records it was forgotten which client tokens were used up, and a member's volume was never made again"},
	{1, 41391, "a replica that was taken back was shut down while another was lost"},
	{1, 51959, "a volume was lost while the members that the binary logs had left behind still voted, by the model"},
	{1, 54060, "a lone primary, between two instances when it was to get company, was never started again"},
	{1, 36996, "a leader that stood still between asking for its lease and taking the lock emptied a member that had become a voter"},
	{1, 34461, "EC2 gave no answer when a member was well on its new instance, and the old one stayed for half a minute more"},
	{1, 203838, "what a person had written on a replica kept the primary from being primary again while the third member was gone"},
	{1, 224154, "so did what a former primary had committed last, after a failover"},
	{1, 269860, "a person purged what two of four voters needed, and none of them could be spared, by the model"},
	{1, 271330, "the records were lost while a primary was being left alone, by the model"},
	{1, 280662, "a member that was to be taken back kept a rebuilt one from its vote, and waited for that"},
	{1, 285551, "a member that was to leave in the middle of its turn kept its vote because its next instance ran"},
	{1, 366940, "records were lost with a volume: a voter with an empty one passed for reached"},
	{1, 302380, "a version broke after a person had asked for it again in a build that starts, and nobody set it back any more, by the model"},
	{1, 403523, "a former primary answered its last commit, which the new one held, while that one waited for acknowledgements, by the model"},
	{1, 445803, "the volume of a primary was lost that was just being left alone, by the model"},
	{1, 448414, "an operator died after it had let go of the other voter and before the row said so, and the records were lost"},
	{1, 515836, "the primary's own row waited for a voter whose applier had stopped for good and for one with an empty volume"},
	{1, 516306, "a new operator believed a deletion to be done before EC2 had shown what the one before had made, by the model"},
	{1, 604272, "two of four voters ran a version that failed and was set back; writes waited, and nobody was told what to do"},
	{1, 616869, "the instance of the last primary was made with a version that does not start, and stayed when that was corrected"},
	{1, 613154, "as in 616869, for an instance on which mysqld had started once"},
	{1, 618245, "a person's build that starts did not reach the instances that were there, by the model"},
	{1, 131743, "the volume was lost of the member that was to try a newer version first when the cluster awoke, and the others waited for it for ever"},
	{1, 174735, "so did they after all instances were replaced"},
	{1, 176564, "a promoted member was lost for good, and commits of the one before it that nobody had acknowledged kept the third from being promoted"},
	{1, 280418, "with asynchronous replication the last primary lost its volume while another member was being made anew from it, by the model"},
	{1, 6155, "all were back, and a former primary whose last row nobody had acknowledged was preferred to the one with the newest"},
	{1, 3966, "a voter whose applier had stopped was started with its acknowledgements on in the pass in which the primary was left alone"},
	{1, 12512, "the row that was to be confirmed waited for a voter on which a person had written, and nobody pointed that one at the primary"},
	{1, 102730, "a replica whose applier had stopped, and that had to be made anew, was shut down while another was no voter yet, by the model"},
	{1, 125331, "the spec was raised to a third series while the second was going round, and a new member was made with it, which nobody could seed"},
	{1, 220970, "a leader that had stood still noted a promotion in records that its successor had found no reason to write, and later that counted as proven"},
	{1, 138362, "where a restart was told of, the way back from an upgrade was not"},
	{1, 227981, "a former primary that received already waited for acknowledgements when it was to be promoted, so that it applied nothing"},
	{1, 247688, "two of three voters ran a version that failed and was set back; there was no primary, and nobody was told what to do"},
	{1, 392354, "the member that tried a newer version first was started once more, and another opened its volume meanwhile"},
	{1, 423422, "a surplus member kept another from its vote, and waited for the turn of a third, which waited for that"},
	{1, 451711, "prepared transactions were committed on a former primary that then was to apply what it had received, and be promoted"},
	{1, 748559, "records were lost, and a voter for good, while what a person had written was on one of the others only, by the model"},
	{1, 755123, "one whose applier could not go on was to be promoted, and the primary of before was no longer trusted when it returned"},
	{1, 865344, "a cluster was begun on one member, the records were lost, and it was begun on another beside it"},
	{1, 888209, "a leader that had been replaced took the records back, and made a volume that its successor never used"},
	{1, 977927, "a zone without room was left, and an instance was launched in it all the same for the volume that had just been deleted"},
	{1, 18443, "a stranger acknowledged before it was known again who votes, and a failover claimed that nothing was lost"},
	{1, 57943, "the records that told of an uncovered time were lost, and a failover claimed that nothing was lost"},
	{1, 24112, "a silent voter that was to be taken back had two instances, and the one without a volume was never stopped"},
	{21, 323, "the only candidate's applier had stopped, and nobody started it"},
	{1, 295917, "a version broke when two of three members ran it, and nobody asked for another build, by the model"},
	{1, 797203, "the same, in another order, by the model"},
	{1, 674922, "an applier that had stopped while there was no primary was never started again"},
	{1, 715097, "the same, beside a volume that was lost"},
	{1, 963156, "the same, on two of three replicas"},
	{1, 739448, "what a former primary answered after status had reported its uncovered time counted as unreported, by the model"},
	{1, 743368, "nobody said that only a newer version reads the data of the only voter, when no other member knew the voters"},
	{1, 184543, "a person had a newcomer rebuilt that had acknowledged the row which admitted it, and that row still waited"},
	{1, 142700, "EC2's lists were late, and a termination that EC2 had taken was asked for three times a second"},
	{1, 186382, "the same"},
	{1, 641133, "what a replaced primary had gone on answering was judged by a promotion long after it had been reported, by the model"},
	{1, 380288, "an empty transaction that a person had given the GTID of another replica's rows came to the primary by replication, by the model"},
	{1, 782106, "two voters had lost their relay logs while it was in doubt who led last, and neither was reset"},
	{1, 681075, "an order that EC2 had been given took effect only when the operator that had given it was no longer frozen, by the model"},
}

// TestRegressions plays the schedules that once went wrong. Then voters acknowledged from disk.
func TestRegressions(t *testing.T) {
	for _, r := range regressions {
		if result := Run(r.seed, r.schedule, false, fromDisk); result.Invariant != "" {
			t.Errorf("once: %s; now: %s: %s\n%s=Disk %s", r.was, result.Invariant, result.Message, acknowledgeVariable, repeat(r.seed, r.schedule))
		}
	}
}

// fromDisk has voters acknowledge from disk.
func fromDisk(w *world) { w.shape.memory, w.desired.AckFromMemory = false, false }

// acknowledgeVariable is the environment variable that has voters acknowledge from disk in all schedules if it is Disk.
const acknowledgeVariable = "NAIROBI_ACKNOWLEDGE"

// asAsked are the changes of the world that the environment asks for.
func asAsked() []func(*world) {
	if os.Getenv(acknowledgeVariable) == "Disk" {
		return []func(*world){fromDisk}
	}
	return nil
}

// drawn are schedules that went wrong with what they draw: most of them with voters that acknowledge from memory.
var drawn = []regression{
	{1, 74205, "an acknowledgement counted although the voter that gave it had lost its relay log, by the model"},
	{1, 583982, "the same, of a voter whose power was cut"},
	{1, 4228, "what was answered because of a stranger, and was lost, counted as kept by a voter that had forgotten something, by the model"},
	{1, 24043, "the same, after two failovers"},
	{1, 395695, "only a replica whose applier had stopped showed what waited on the former primary for acknowledgements, and nobody was promoted"},
	{1, 466488, "a switchover that a person had asked for failed because of prepared transactions, and was tried again for an hour"},
	{1, 389069, "the failover from a primary whose row nobody else had was not limited, and that primary was given no time to return"},
	{1, 452561, "the same"},
	{1, 529877, "a former primary that was still writable showed who votes, by the model"},
	{1, 462345, "a rebuild that an operator began which had lost its lease counted as none, by the model"},
	{1, 59004, "a promotion came to nothing, and what a person wrote on a replica kept the former primary from leading again"},
	{1, 210086, "so did the row of a primary that nobody had acknowledged, after a second promotion came to nothing"},
	{1, 396967, "so did the row of a primary that was unseated, when the one in its place had not written its own yet"},
	{1, 482495, "so did what a person wrote on the member whose promotion came to nothing"},
	{1, 495887, "so did what a person wrote on a replica, when the former primary itself was to be promoted"},
	{7, 384, "a row that only the promoted member had executed passed for one that does not hold, by the model"},
	{77, 6366, "a harmless transaction of a replica was purged from its log after it was read there, and its adoption was tried for ever"},
}

// TestDrawnRegressions plays them.
func TestDrawnRegressions(t *testing.T) {
	for _, r := range drawn {
		if result := Run(r.seed, r.schedule, false); result.Invariant != "" {
			t.Errorf("once: %s; now: %s: %s\n%s", r.was, result.Invariant, result.Message, repeat(r.seed, r.schedule))
		}
	}
}
