// Package cloud is the lab's AWS: a real EC2 API (moto's, behind a fault
// proxy) and instances that really boot, on one Linux machine without virtual
// machines.
//
// # What is real
//
// An instance is a set of namespaces (network, pid, mount, uts, ipc, cgroup)
// with systemd as its first process, over a read-only Debian root file system,
// a small image layer and a layer of its own. cloud-init finds the metadata
// service (version 2 only) as it does in EC2 and runs the user data. Volumes
// are sparse files behind loop devices: mkfs, mount, log recovery, moving to
// another instance and growth are the kernel's own. The network is one bridge
// in a namespace of its own with 10.77.0.0/16; the host has 10.77.0.2, the
// Kubernetes node 10.77.0.3. The API listens on 10.77.0.2:4566, the control
// API of instances and faults on :4567, that of the fault proxy on :4568.
//
// # What is ours and not AWS's
//
// Wherever the lab is cited as evidence, these are rules that we wrote, after
// AWS's documentation and not from measurements of AWS:
//
//   - The rules that moto lacks (test/lab/moto/strict): idempotency by
//     ClientToken, checks of attach, detach, type, image, zone and user data,
//     termination protection with a launch, DryRun, states that take time, the
//     texts of errors. Four modifications a volume a day. The account's default
//     is to show tags in the instance metadata.
//   - Calls take as long, and are throttled by the same buckets of an account,
//     as proxy.Latency and proxy.Buckets say.
//   - The faults of the proxy: their codes are EC2's, when they come is up to
//     the test. A denied call's encoded message is made up.
//   - An instance is running about 0.2 s after its launch and booted a second
//     later; in EC2 that takes half a minute. Volumes and snapshots are ready
//     at once.
//   - A guest has 60 s to shut down at StopInstances, 10 s with Force, 15 s at
//     TerminateInstances, none with SkipOsShutdown; 30 s at RebootInstances.
//   - A snapshot holds the file system's writes for a moment (FIFREEZE) and is
//     so cleaner than EBS's, which is as after a power cut.
//   - A volume that is mounted stays "detaching" until the guest unmounts it.
//   - A machine that loses power stays "running", its status checks impaired
//     after Options.CheckDelay; nothing restarts it. EC2 needs some minutes, and
//     may recover it. A machine that hangs keeps its checks; in EC2 it would not.
//   - A machine without power is silent, its address a black hole; while a
//     neighbour's ARP entry for it is fresh, that is the bridge's doing, later
//     the gateway's.
//   - Security groups are stored, not enforced. The hop limit of the metadata
//     service is not enforced. Any credentials are accepted.
//   - All instances share the host's kernel, clock and processors; each has
//     1 GiB of memory whatever its type. /sys/block holds the instance's volumes
//     and nothing of them but their serials. A power cut loses what the guest
//     had not flushed; it does not tear single sectors.
//
// # After a crash of the lab
//
// Machines and the API die with this process. What stays (network namespace,
// host link, loop devices, control groups, directories) is in the ledger and
// goes with the next clean-up.
package cloud
