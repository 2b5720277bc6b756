#include "engine/tuning/tuning_file.h"

#include <gtest/gtest.h>

#include "engine/tuning/choice_table.h"

namespace kvd {
namespace {

TEST(MachineIdentityTest, NamesTheFirstProcessor) {
  const MachineIdentity machine = ParseCpuInfo(
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
      "model name\t: Intel(R) Xeon(R) Platinum 8481C\nstepping\t: 8\nmicrocode\t: 0x2b000603\n\n"
      "processor\t: 1\nvendor_id\t: Another\n");
  EXPECT_EQ(machine.cpu, "GenuineIntel 6/143/8 Intel(R) Xeon(R) Platinum 8481C");
  EXPECT_EQ(machine.microcode, "0x2b000603");
}

TEST(MachineIdentityTest, MissingLinesAreReportedAsUnknown) {
  EXPECT_EQ(ParseCpuInfo(""), (MachineIdentity{.cpu = "unknown unknown/unknown/unknown unknown",
                                               .microcode = "unknown"}));
  EXPECT_EQ(ParseCpuInfo("model name :\nmicrocode : \n no colon\n").microcode, "unknown");
}

TEST(MachineIdentityTest, TheIdentityIsShortAndPrintable) {
  const MachineIdentity machine = ParseCpuInfo(
      "model name: a\x01"
      "b\xff" +
      std::string(200, 'c') + "\n");
  EXPECT_EQ(machine.cpu, "unknown unknown/unknown/unknown a?b?" + std::string(76, 'c'));
}

TEST(MachineIdentityTest, TheIdentityOfThisMachineNamesACpu) {
  EXPECT_NE(ReadMachineIdentity().cpu, ParseCpuInfo("").cpu);
}

TEST(CpuDefaultsTest, KnownProcessorsHaveTheirOwnChoices) {
  kernels::KernelTable table = *kernels::ScalarTable();
  table.name = "avx512";
  table.round_rows = [](const float*, std::size_t, std::size_t, std::size_t, void*) {};
  table.bf16_rows_min = 8;
  const kernels::ProductChoices known = DefaultChoicesOf("GenuineIntel 6/143/8 Xeon", table);
  const kernels::ProductChoices others = DefaultChoicesOf("AuthenticAMD 26/2/1 EPYC", table);
  EXPECT_EQ(others, kernels::DefaultChoices(table));
  EXPECT_EQ(others.For(kernels::DataType::kF16).wide_form, kernels::WideForm::kBf16);
  EXPECT_EQ(known.For(kernels::DataType::kF16).wide_form, kernels::WideForm::kAsNarrow);
  table.name = "amx";
  EXPECT_EQ(DefaultChoicesOf("GenuineIntel 6/143/8 Xeon", table), others);
}

}  // namespace
}  // namespace kvd
