#include "tests/hardening/elf_hardening.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

namespace kvd::test {
namespace {

constexpr std::string_view kEndbr64 = "\xf3\x0f\x1e\xfa";
// The machine code of `orq $0, (%rsp)`, with which GCC probes a page of the stack.
constexpr std::string_view kProbe{"\x48\x83\x0c\x24\x00", 5};

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    bytes_.resize(file ? static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0)) : 0);
    file.seekg(0).read(bytes_.data(), std::ssize(bytes_));
  }

  bool is_readable() const {
    return bytes_.size() >= sizeof(Elf64_Ehdr) && bytes_.starts_with(ELFMAG) &&
           bytes_[EI_CLASS] == ELFCLASS64;
  }
  Elf64_Ehdr header() const { return At<Elf64_Ehdr>(0); }
  std::vector<Elf64_Phdr> segments() const {
    return Table<Elf64_Phdr>(header().e_phoff, header().e_phnum);
  }
  std::vector<Elf64_Shdr> sections() const {
    return Table<Elf64_Shdr>(header().e_shoff, header().e_shnum);
  }
  template <class T>
  std::vector<T> EntriesOf(std::uint32_t section_type) const {
    std::vector<T> entries;
    for (const Elf64_Shdr& section : sections()) {
      if (section.sh_type != section_type) continue;
      const auto some = Table<T>(section.sh_offset, section.sh_size / sizeof(T));
      entries.insert(entries.end(), some.begin(), some.end());
    }
    return entries;
  }
  std::uint64_t DynamicValue(std::int64_t tag) const {
    for (const Elf64_Dyn& entry : EntriesOf<Elf64_Dyn>(SHT_DYNAMIC)) {
      if (entry.d_tag == tag) return entry.d_un.d_val;
    }
    return 0;
  }

  struct Symbol {
    std::string_view name;
    Elf64_Sym symbol;
  };
  std::vector<Symbol> Symbols() const {
    std::vector<Symbol> symbols;
    const std::vector<Elf64_Shdr> all = sections();
    for (const Elf64_Shdr& section : all) {
      if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) continue;
      const std::string_view names =
          Part(all[section.sh_link].sh_offset, all[section.sh_link].sh_size);
      for (const auto& symbol :
           Table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
        const std::string_view from =
            names.substr(std::min<std::size_t>(symbol.st_name, names.size()));
        symbols.push_back({from.substr(0, from.find('\0')), symbol});
      }
    }
    return symbols;
  }
  // Returns the bytes at a virtual address of the loaded file.
  std::string_view AtAddress(std::uint64_t address, std::size_t bytes) const {
    for (const Elf64_Phdr& segment : segments()) {
      if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
          address - segment.p_vaddr + bytes > segment.p_filesz) {
        continue;
      }
      return Part(segment.p_offset + (address - segment.p_vaddr), bytes);
    }
    return {};
  }
  std::string_view Part(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) return {};
    return std::string_view(bytes_).substr(offset, bytes);
  }

 private:
  template <class T>
  T At(std::uint64_t offset) const {
    T value{};
    const std::string_view part = Part(offset, sizeof value);
    if (!part.empty()) std::memcpy(&value, part.data(), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> Table(std::uint64_t offset, std::uint64_t count) const {
    std::vector<T> entries;
    for (std::uint64_t i = 0; i < count; ++i) entries.push_back(At<T>(offset + i * sizeof(T)));
    return entries;
  }

  std::string bytes_;
};

bool HasSegment(const ElfFile& file, std::uint32_t type, std::uint32_t forbidden_flags) {
  return std::ranges::any_of(file.segments(), [&](const Elf64_Phdr& segment) {
    return segment.p_type == type && (segment.p_flags & forbidden_flags) == 0;
  });
}

bool IsPositionIndependent(const ElfFile& file) {
  if (file.header().e_type != ET_DYN) return false;
  const bool is_program = HasSegment(file, PT_INTERP, 0);
  return !is_program || (file.DynamicValue(DT_FLAGS_1) & DF_1_PIE) != 0;
}

bool Imports(const std::vector<ElfFile::Symbol>& symbols, auto names_it) {
  return std::ranges::any_of(symbols, [&](const ElfFile::Symbol& symbol) {
    return symbol.symbol.st_shndx == SHN_UNDEF && names_it(symbol.name);
  });
}

// Returns whether the symbol is a fortified function, __..._chk. A name in .symtab may end with
// "@VERSION".
bool IsFortified(std::string_view name) {
  name = name.substr(0, name.find('@'));
  return name.starts_with("__") && name.ends_with("_chk");
}

bool BeginsWithEndbr(const ElfFile& file, const std::vector<ElfFile::Symbol>& symbols,
                     const std::string& entry) {
  return std::ranges::any_of(symbols, [&](const ElfFile::Symbol& symbol) {
    return symbol.name == entry && symbol.symbol.st_shndx != SHN_UNDEF &&
           file.AtAddress(symbol.symbol.st_value, kEndbr64.size()) == kEndbr64;
  });
}

bool ProbesFrames(const ElfFile& file) {
  return std::ranges::any_of(file.segments(), [&](const Elf64_Phdr& segment) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) return false;
    const std::string_view code = file.Part(segment.p_offset, segment.p_filesz);
    return ::memmem(code.data(), code.size(), kProbe.data(), kProbe.size()) != nullptr;
  });
}

}  // namespace

std::vector<std::string> MissingHardening(const std::string& path, const std::string& entry) {
  const ElfFile file(path);
  if (!file.is_readable()) return {"unreadable"};
  const std::vector<ElfFile::Symbol> symbols = file.Symbols();
  std::vector<std::string> missing;
  const auto expect = [&missing](bool is_there, const char* name) {
    if (!is_there) missing.emplace_back(name);
  };
  expect(IsPositionIndependent(file), "pie");
  expect(HasSegment(file, PT_GNU_RELRO, 0), "relro");
  expect((file.DynamicValue(DT_FLAGS) & DF_BIND_NOW) != 0, "bind_now");
  expect(HasSegment(file, PT_GNU_STACK, PF_X), "plain_stack");
  expect(Imports(symbols, [](auto name) { return name.starts_with("__stack_chk_fail"); }),
         "stack_protector");
  expect(Imports(symbols, IsFortified), "fortify");
  expect(Imports(symbols, [](auto name) { return name.find("glibcxx_assert_fail") != name.npos; }),
         "assertions");
  expect(BeginsWithEndbr(file, symbols, entry), "control_flow");
  expect(ProbesFrames(file), "stack_clash");
  return missing;
}

}  // namespace kvd::test
