//! Checks a shared library's file before the system loads it.
//!
//! The loader of ELF maps the parts that the headers declare. Of a truncated file some are missing, and the
//! process ends with SIGBUS when it reads them. Those of macOS and Windows look themselves.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Result, bail, ensure};

/// The format of this system's libraries.
const OWN: Format = if cfg!(windows) {
    Format::Pe
} else if cfg!(target_os = "macos") {
    Format::MachO
} else {
    Format::Elf
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Elf,
    MachO,
    Pe,
}

impl Format {
    const ALL: [Self; 3] = [Self::Elf, Self::MachO, Self::Pe];

    /// Recognises a file by its first bytes.
    fn of(magic: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|format| match format {
            Self::Elf => magic.starts_with(b"\x7fELF"),
            // One processor's, or those of several in a row.
            Self::MachO => matches!(magic, b"\xcf\xfa\xed\xfe" | b"\xca\xfe\xba\xbe"),
            Self::Pe => magic.starts_with(b"MZ"),
        })
    }

    fn description(self) -> &'static str {
        match self {
            Self::Elf => "an ELF library (.so)",
            Self::MachO => "a Mach-O library (.dylib)",
            Self::Pe => "a Windows library (.dll)",
        }
    }
}

/// Checks that a file is a library of this system, and not truncated.
///
/// # Errors
/// It is of another kind, or shorter than its headers declare.
pub(super) fn check(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut image = Image { file, length };
    let magic = if length < 4 { [0; 4] } else { image.read(0)? };
    let format = match Format::of(&magic) {
        Some(format) if format == OWN => format,
        Some(other) => bail!(
            "it is {}, expected {}",
            other.description(),
            OWN.description()
        ),
        None => bail!("it is not a shared library, expected {}", OWN.description()),
    };
    let end = match format {
        Format::Elf => image.end_of_elf()?,
        Format::MachO | Format::Pe => return Ok(()),
    };
    ensure!(
        end <= length,
        "it is truncated: it has {length} of {end} bytes"
    );
    Ok(())
}

/// A library's file.
struct Image<F> {
    file: F,
    length: u64,
}

impl<F: Read + Seek> Image<F> {
    fn read<const COUNT: usize>(&mut self, at: u64) -> Result<[u8; COUNT]> {
        ensure!(
            at.saturating_add(COUNT as u64) <= self.length,
            "it is truncated: it ends within its headers"
        );
        let mut bytes = [0; COUNT];
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u16(&mut self, at: u64) -> Result<u64> {
        Ok(u16::from_le_bytes(self.read(at)?).into())
    }

    fn u64(&mut self, at: u64) -> Result<u64> {
        Ok(u64::from_le_bytes(self.read(at)?))
    }

    /// Segments, and the tables of segments and sections.
    fn end_of_elf(&mut self) -> Result<u64> {
        // The loader itself refuses other sizes and orders of bytes than its own.
        if self.read(4)? != [2, 1] {
            return Ok(0);
        }
        let (segments, size, count) = (self.u64(32)?, self.u16(54)?, self.u16(56)?);
        let (sections, section_size) = (self.u64(40)?, self.u16(58)?);
        let section_count = self.u16(60)?;
        let mut end = segments.saturating_add(size * count);
        if section_count > 0 {
            end = end.max(sections.saturating_add(section_size * section_count));
        }
        for index in 0..count {
            let field = |at| segments.saturating_add(index * size + at);
            let (offset, bytes) = (self.u64(field(8))?, self.u64(field(32))?);
            end = end.max(offset.saturating_add(bytes));
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Bytes with little-endian fields at their offsets.
    fn image(magic: &[u8], fields: &[(usize, usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[..magic.len()].copy_from_slice(magic);
        for &(at, size, value) in fields {
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        bytes
    }

    #[test]
    fn the_end_follows_from_the_headers() {
        // Two segments, the second of 4 KiB at 8 KiB; a section table behind it.
        let mut elf = vec![(32, 8, 64), (54, 2, 56), (56, 2, 2)];
        elf.extend([(64 + 56 + 8, 8, 8192), (64 + 56 + 32, 8, 4096)]);
        let stripped = image(b"\x7fELF\x02\x01", &elf);
        elf.extend([(40, 8, 20_000), (58, 2, 64), (60, 2, 3)]);
        let elf = image(b"\x7fELF\x02\x01", &elf);
        for (bytes, end) in [(stripped, 12_288), (elf, 20_192)] {
            assert_eq!(Format::of(&bytes[..4]), Some(Format::Elf));
            let end_of = |length: u64| {
                let file = Cursor::new(&bytes);
                Image { file, length }.end_of_elf()
            };
            assert_eq!(end_of(256).unwrap(), end);
            assert!(end_of(15).is_err());
        }
        for (magic, format) in [
            (b"\xcf\xfa\xed\xfe", Format::MachO),
            (b"\xca\xfe\xba\xbe", Format::MachO),
            (b"MZ\x90\0", Format::Pe),
        ] {
            assert_eq!(Format::of(magic), Some(format));
        }
        assert_eq!(Format::of(b"\0\0\0\0"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_executable_is_whole_and_its_parts_are_not() {
        let executable = std::env::current_exe().unwrap();
        check(&executable).unwrap();
        let bytes = std::fs::read(&executable).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        for length in [0, 3, 20, 4096, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let why = check(&path).unwrap_err().to_string();
            let expected = match length {
                0..4 => "it is not a shared library, expected ",
                _ => "it is truncated: it ",
            };
            assert!(why.starts_with(expected), "{length}: {why}");
        }
    }
}
