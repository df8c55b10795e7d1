package cloud

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cloudConfig tells cloud-init where it runs and what to leave alone.
const cloudConfig = `datasource_list: [Ec2]
datasource:
  Ec2:
    strict_id: false
    timeout: 5
    max_wait: 30
network: {config: disabled}
manage_etc_hosts: false
preserve_hostname: false
ssh_deletekeys: false
ssh_genkeytypes: []
cloud_init_modules: [seed_random, bootcmd, write_files, set_hostname, update_hostname]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts_per_once, scripts_per_boot, scripts_per_instance, scripts_user, final_message]
`

// maskedUnits need a kernel of their own, a network that changes, a terminal,
// or time that a test does not have. mysql.service is the package's own
// server: the operator brings its units.
var maskedUnits = []string{
	"apt-daily-upgrade.timer", "apt-daily.timer", "dev-hugepages.mount", "dpkg-db-backup.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "getty.target", "getty@tty1.service",
	"ldconfig.service", "modprobe@.service", "mysql.service", "proc-sys-fs-binfmt_misc.automount",
	"sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount",
	"sys-kernel-tracing.mount", "systemd-ask-password-console.path", "systemd-ask-password-wall.path",
	"systemd-binfmt.service", "systemd-firstboot.service", "systemd-journal-flush.service",
	"systemd-logind-varlink.socket", "systemd-logind.service", "systemd-modules-load.service",
	"systemd-networkd-wait-online.service", "systemd-networkd.service", "systemd-resolved.service",
	"systemd-sysctl.service", "systemd-udevd.service", "systemd-update-done.service",
	"xfs_healer_start.service", "xfs_scrub_all.timer",
}

// writeLayer makes the image's own layer over the root file system: the
// settings above, and a white-out of dhcpcd, for which cloud-init would wait
// half a minute.
func writeLayer(dir string) error {
	configs, units := filepath.Join(dir, "etc/cloud/cloud.cfg.d"), filepath.Join(dir, "etc/systemd/system")
	for _, d := range []string{configs, units, filepath.Join(dir, "usr/sbin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make the image layer: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(configs, "90_lab.cfg"), []byte(cloudConfig), 0o644); err != nil {
		return fmt.Errorf("write cloud-init's settings: %w", err)
	}
	for _, u := range maskedUnits {
		if err := os.Symlink("/dev/null", filepath.Join(units, u)); err != nil {
			return fmt.Errorf("mask %s: %w", u, err)
		}
	}
	whiteout := filepath.Join(dir, "usr/sbin/dhcpcd")
	if err := unix.Mknod(whiteout, unix.S_IFCHR, int(unix.Mkdev(0, 0))); err != nil {
		return fmt.Errorf("white out dhcpcd: %w", err)
	}
	return nil
}
