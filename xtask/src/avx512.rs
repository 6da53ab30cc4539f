//! `cargo xtask test avx512`: npu's unit tests on a processor with AVX-512 that Bochs emulates.
//!
//! Debian's kernel boots from an image whose initial memory disk holds the static test program,
//! busybox and a script that runs the one and then, by the other, turns the machine off. What
//! they print is the emulated serial line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::context::Context;
use crate::process::{self, Line};
use crate::report::Tally;
use crate::setup::{self, Package};

/// What the emulated processor is; the test of npu that reads `DFLOW_ISA` fails with a lesser one.
const CPU: &str = "corei7_icelake_u";

/// Where Debian's packages for Bochs put what the emulated machine starts with.
const BIOS: &str = "/usr/share/bochs/BIOS-bochs-latest";
const VGA_BIOS: &str = "/usr/share/vgabios/vgabios.bin";

/// The package that depends on the kernel; that one is unpacked here, never installed.
const KERNEL: &str = "linux-image-cloud-amd64";

/// What Linux must not use of what Bochs emulates: compacted forms of the vector state have sizes
/// that Linux refuses, and with them all of AVX; with the newer of the others it does not start. A
/// panic restarts by a triple fault, where Bochs exits.
const COMMAND_LINE: &str = "console=ttyS0,115200 quiet mitigations=off apparmor=0 reboot=t \
    panic=-1 clearcpuid=xsavec,xsaves,pku,fsrm,erms,umip,rdpid,la57,pcid,invpcid,smap";

/// What runs on the machine. The tests ask `/dev` for random numbers; the line is given time
/// before the machine is turned off.
const SCRIPT: &str = "#!/busybox sh
/busybox mount -t devtmpfs dev /dev
DFLOW_ISA=Avx512+vnni /tests --test-threads=1 --include-ignored
/busybox sleep 1
/busybox poweroff -f
";

/// Where Debian's package has busybox.
const BUSYBOX: &str = "/bin/busybox";

/// What Bochs prints before the terminal that it draws its screen on.
const SCREEN: &str = "Bochs connected to screen \"";

const PACKAGES: &[Package] = &[
    Package { name: "bochs", why: "emulates the processor", present: || has("bochs") },
    Package {
        name: "bochs-term",
        why: "Bochs without a window",
        present: || Path::new("/usr/lib/x86_64-linux-gnu/bochs/plugins/libbx_term_gui.so").exists(),
    },
    Package {
        name: "bochsbios",
        why: "starts the emulated machine",
        present: || Path::new(BIOS).exists(),
    },
    Package {
        name: "vgabios",
        why: "starts the emulated machine",
        present: || Path::new(VGA_BIOS).exists(),
    },
    Package {
        name: "grub-pc-bin",
        why: "boots the image",
        present: || Path::new("/usr/lib/grub/i386-pc/linux.mod").exists(),
    },
    Package {
        name: "busybox-static",
        why: "runs the tests on the emulated machine",
        present: || Path::new(BUSYBOX).exists(),
    },
    Package { name: "grub-common", why: "makes the image", present: || has("grub-mkrescue") },
    Package { name: "xorriso", why: "makes the image", present: || has("xorriso") },
    Package { name: "mtools", why: "makes the image", present: || has("mformat") },
];

fn has(program: &str) -> bool {
    process::output_of("which", &[program]).is_some()
}

/// Makes sure of the packages and of a kernel.
pub(crate) fn prepare(context: &Context) -> Result<Vec<String>, String> {
    let mut lines = setup::ensure(PACKAGES)?;
    let kernel = match kernel_in(&folder(context).join("kernel")) {
        Some(kernel) => kernel,
        None => unpack_kernel(context)?,
    };
    lines.push(format!("kernel: {}", kernel.display()));
    Ok(lines)
}

/// Builds the test program and the image.
pub(crate) fn build(context: &Context) -> Result<Vec<String>, String> {
    let folder = folder(context);
    let kernel = kernel_in(&folder.join("kernel")).ok_or("no kernel: `avx512` has not prepared")?;
    let tests = build_tests(context)?;
    let tree = folder.join("image");
    let grub = tree.join("boot/grub");
    fs::create_dir_all(&grub).map_err(|error| format!("{}: {error}", grub.display()))?;
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    write(&tree.join("boot/vmlinuz"), &read(&kernel)?)?;
    let busybox = read(Path::new(BUSYBOX))?;
    let files =
        [("init", SCRIPT.as_bytes()), ("busybox", &busybox[..]), ("tests", &read(&tests)?[..])];
    write(&tree.join("boot/initrd"), &archive(&files))?;
    let menu =
        format!("set timeout=0\nlinux /boot/vmlinuz {COMMAND_LINE}\ninitrd /boot/initrd\nboot\n");
    write(&grub.join("grub.cfg"), menu.as_bytes())?;
    write(&folder.join("bochs.rc"), machine(&folder).as_bytes())?;
    write(&folder.join("bochs.go"), b"c\n")?;
    let image = folder.join("tests.iso");
    let mut command = Command::new("grub-mkrescue");
    command.arg("-o").arg(&image).args([
        "--install-modules=linux normal iso9660 biosdisk",
        "--modules=linux normal iso9660 biosdisk",
    ]);
    let output = command.arg(&tree).output().map_err(|error| format!("grub-mkrescue: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("grub-mkrescue failed: {}\n{said}", output.status));
    }
    Ok(vec![format!("image: {}", image.display())])
}

/// Runs the image; every line goes to `sink`. Returns what the tests counted.
pub(crate) fn run(
    context: &Context,
    deadline: Instant,
    mut sink: impl FnMut(&str),
) -> Result<Tally, String> {
    let folder = folder(context);
    let mut command = Command::new("bochs");
    command.current_dir(&folder).env("TERM", "linux");
    command.args(["-q", "-rc", "bochs.go", "-f", "bochs.rc"]);
    println!("$ cd {} && {}", folder.display(), process::show(&command));
    let (mut tally, mut counted) = (Tally::default(), false);
    process::run_lines(&mut command, Some(deadline), |line| {
        // The serial line is standard error.
        let (Line::Out(text) | Line::Err(text)) = line;
        if let Some((_, rest)) = text.split_once(SCREEN) {
            drain(rest.trim_end_matches('"').to_owned());
        }
        if let Some(count) = Tally::of_line(&text) {
            counted = true;
            tally.add(count);
        }
        if !is_of_bochs(&text) {
            sink(&text);
        }
    })?;
    if counted {
        Ok(tally)
    } else {
        Err(format!(
            "the emulated machine ended before its tests; see {}/bochs.log",
            folder.display()
        ))
    }
}

/// True for what Bochs and its libraries say while they start.
fn is_of_bochs(line: &str) -> bool {
    line.starts_with("ALSA lib ") || line.starts_with("0000000000")
}

/// Reads what is drawn on the emulated screen: a terminal that nobody reads stops its writer.
fn drain(terminal: String) {
    std::thread::spawn(move || {
        if let Ok(mut screen) = fs::File::open(terminal) {
            // Ends with the terminal.
            drop(std::io::copy(&mut screen, &mut std::io::sink()));
        }
    });
}

fn folder(context: &Context) -> PathBuf {
    context.variant_target("avx512").join("machine")
}

/// Bochs's configuration of the machine.
fn machine(folder: &Path) -> String {
    let image = folder.join("tests.iso");
    format!(
        "plugin_ctrl: unmapped=true, biosdev=true, extfpuirq=true, serial=true\n\
         config_interface: textconfig\n\
         display_library: term\n\
         megs: 1024\n\
         romimage: file=\"{BIOS}\"\n\
         vgaromimage: file=\"{VGA_BIOS}\"\n\
         cpu: model={CPU}, count=1, ips=50000000, reset_on_triple_fault=0, ignore_bad_msrs=1\n\
         clock: sync=none, time0=1700000000\n\
         ata0-master: type=cdrom, path=\"{}\", status=inserted\n\
         boot: cdrom\n\
         com1: enabled=1, mode=file, dev=/dev/stderr\n\
         log: bochs.log\n\
         panic: action=fatal\n\
         error: action=report\n\
         info: action=ignore\n\
         debug: action=ignore\n",
        image.display()
    )
}

fn kernel_in(folder: &Path) -> Option<PathBuf> {
    let found = fs::read_dir(folder.join("boot")).ok()?.flatten().map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    };
    found.filter(is_kernel).max()
}

fn unpack_kernel(context: &Context) -> Result<PathBuf, String> {
    let folder = folder(context);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let depends = process::output_of("apt-cache", &["depends", "--important", KERNEL]);
    let package = depends
        .as_deref()
        .and_then(|text| text.lines().find_map(|line| line.trim().strip_prefix("Depends: ")))
        .ok_or_else(|| format!("apt-cache knows no {KERNEL}: run `apt-get update`"))?
        .to_owned();
    let script = format!(
        "apt-get download -q {package} && dpkg-deb -x {package}_*.deb kernel && rm {package}_*.deb"
    );
    let mut command = Command::new("sh");
    process::run_plain(command.args(["-ec", &script]).current_dir(&folder))?;
    kernel_in(&folder.join("kernel"))
        .ok_or_else(|| format!("{package} has no boot/vmlinuz-*, in {}", folder.display()))
}

/// Compiles npu's unit tests into one file that needs no other; returns its path.
fn build_tests(context: &Context) -> Result<PathBuf, String> {
    let args = ["test", "-p", "npu", "--lib", "--no-run", "--target", "x86_64-unknown-linux-gnu"];
    let mut command = context.cargo("", &args);
    command.env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols");
    command.env("CARGO_TARGET_DIR", context.variant_target("avx512"));
    println!("$ {}", process::show(&command));
    let (mut said, mut built) = (String::new(), None);
    let status = process::run_lines(&mut command, None, |line| {
        let (Line::Out(text) | Line::Err(text)) = line;
        if let Some((_, path)) = text.split_once("Executable unittests src/lib.rs (") {
            built = Some(context.root.join(path.trim_end_matches(')')));
        }
        said = format!("{said}{text}\n");
    })?;
    match built {
        Some(path) if status.success() => Ok(path),
        _ => Err(format!("`{}` built no test program: {status}\n{said}", process::show(&command))),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// An archive for the kernel (`cpio -H newc`) of programs.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    const PROGRAM: usize = 0o100_755;
    let mut out = Vec::new();
    let end = ("TRAILER!!!", &[][..]);
    for (index, (name, bytes)) in files.iter().copied().chain([end]).enumerate() {
        // Inode, mode, owner, group, links, time, size, two devices of two numbers, name, sum.
        let fields = [index, PROGRAM, 0, 0, 1, 0, bytes.len(), 0, 0, 0, 0, name.len() + 1, 0];
        out.extend_from_slice(b"070701");
        for field in fields {
            out.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        for part in [&[name.as_bytes(), &[0]].concat()[..], bytes] {
            out.extend_from_slice(part);
            out.resize(out.len().next_multiple_of(4), 0);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_programs_at_multiples_of_four() {
        let archive = archive(&[("init", b"abcde")]);
        assert_eq!(&archive[..6], b"070701");
        assert_eq!(&archive[54..62], b"00000005");
        assert_eq!(&archive[110..124], b"init\0\0abcde\0\0\0");
        assert_eq!(&archive[124..130], b"070701");
        assert_eq!(archive.len() % 4, 0);
    }
}
