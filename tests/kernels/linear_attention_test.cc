// Tests the scans of linear attention: every kernel table computes the bits of the scalar table,
// the results agree with the formulas in double precision, and scanning in chunks of any length
// gives the same bits.
#include <functional>
#include <tuple>

#include "tests/kernels/kernel_inputs.h"

namespace kvd::kernels {
namespace {

constexpr std::size_t kRows = 50;
constexpr std::size_t kFirst = 3;  // index of the head's first element in its rows

// Input: one input (for instance the keys) of one head for kRows tokens. The rows are wider than
// the head, whose elements begin at kFirst.
struct Input {
  std::size_t size;
  std::vector<std::vector<float>> rows;
  std::vector<float*> pointers;

  Input(std::size_t head_size, float low, float high, std::uint64_t seed) : size(head_size) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> uniform(low, high);
    rows.resize(kRows, std::vector<float>(kFirst + head_size + 2));
    for (auto& row : rows) {
      for (float& number : row) number = uniform(random);
      pointers.push_back(row.data());
    }
  }
  double at(std::size_t row, std::size_t i) const { return rows[row][kFirst + i]; }
};

using Matrix = std::vector<std::vector<double>>;  // [key][value]

class LinearAttentionTest : public ::testing::TestWithParam<std::tuple<const char*, std::size_t>> {
 protected:
  using Scan = std::function<void(const KernelTable&, const HeadRows&, std::size_t first_row)>;

  void SetUp() override {
    const KernelChoice choice = SelectOrTrap(std::get<0>(GetParam()));
    if (choice.table == nullptr) GTEST_SKIP() << choice.problem;
    table_ = choice.table;
  }

  // Scans all rows in chunks of `chunk` rows and returns the final state. Every second chunk
  // updates the state in place.
  std::vector<float> Run(const KernelTable& table, const Scan& scan, std::size_t chunk) const {
    std::vector<float> from(size_ * size_, 0.0f);
    for (std::size_t done = 0; done < kRows; done += chunk) {
      std::vector<float> to(size_ * size_, NAN);
      const bool in_place = done / chunk % 2 == 1;
      scan(table,
           {.row_count = std::min(chunk, kRows - done),
            .head_size = size_,
            .from = from.data(),
            .to = in_place ? from.data() : to.data()},
           done);
      if (!in_place) from = to;
    }
    return from;
  }

  // Compares the scan with the scalar table, with `expected` and with scans in chunks.
  // expected(row, state) returns the result of one token and updates the state.
  void Check(const Scan& scan, Input& y,
             const std::function<std::vector<double>(std::size_t, Matrix&)>& expected) const {
    const std::size_t size = size_;
    const std::vector<float> scalar = Run(*ScalarTable(), scan, kRows);
    const auto scalar_rows = y.rows;
    const std::vector<float> state = Run(*table_, scan, kRows);
    const auto whole = y.rows;
    ASSERT_TRUE(SameBits(scalar, state));
    for (std::size_t row = 0; row < kRows; ++row) {
      ASSERT_TRUE(SameBits(scalar_rows[row], whole[row])) << "row " << row;
    }
    Matrix truth(size, std::vector<double>(size, 0.0));
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::vector<double> wanted = expected(row, truth);
      for (std::size_t j = 0; j < size; ++j) {
        ASSERT_NEAR(y.at(row, j), wanted[j], 1e-4 * (1 + std::fabs(wanted[j])))
            << "row " << row << " value " << j;
      }
    }
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) {
        ASSERT_NEAR(state[i * size + j], truth[i][j], 1e-4 * (1 + std::fabs(truth[i][j])));
      }
    }
    for (const std::size_t chunk : {1, 7, 49}) {
      EXPECT_EQ(Run(*table_, scan, chunk), state) << "in pieces of " << chunk;
      EXPECT_EQ(y.rows, whole) << "in pieces of " << chunk;
    }
  }

  const KernelTable* table_ = nullptr;
  const std::size_t size_ = std::get<1>(GetParam());
  Input r_{size_, -1, 1, 1}, k_{size_, -1, 1, 2}, v_{size_, -1, 1, 3}, w_{size_, 0.5f, 1, 4};
  Input y_{size_, 0, 0, 5};
};

TEST_P(LinearAttentionTest, Wkv6GivesTheCurrentTokenItsOwnWeight) {
  const Input u(size_, -1, 1, 6);
  const Scan scan = [&](const KernelTable& table, const HeadRows& head_rows, std::size_t row) {
    table.scan_wkv6(head_rows, {.r = r_.pointers.data() + row,
                                .k = k_.pointers.data() + row,
                                .v = v_.pointers.data() + row,
                                .w = w_.pointers.data() + row,
                                .u = u.rows[0].data() + kFirst,
                                .y = y_.pointers.data() + row,
                                .first = kFirst});
  };
  Check(scan, y_, [&](std::size_t row, Matrix& state) {
    std::vector<double> y(size_, 0.0);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) {
        const double kv = k_.at(row, i) * v_.at(row, j);
        y[j] += r_.at(row, i) * (u.at(0, i) * kv + state[i][j]);
        state[i][j] = state[i][j] * w_.at(row, i) + kv;
      }
    }
    return y;
  });
}

TEST_P(LinearAttentionTest, Wkv7ReplacesTheValueThatTheStateHoldsForAKey) {
  const float length = std::sqrt(static_cast<float>(size_));
  const Input a(size_, -1 / length, 1 / length, 7), b(size_, -1 / length, 1 / length, 8);
  const Scan scan = [&](const KernelTable& table, const HeadRows& head_rows, std::size_t row) {
    table.scan_wkv7(head_rows, {.r = r_.pointers.data() + row,
                                .w = w_.pointers.data() + row,
                                .k = k_.pointers.data() + row,
                                .v = v_.pointers.data() + row,
                                .a = a.pointers.data() + row,
                                .b = b.pointers.data() + row,
                                .y = y_.pointers.data() + row,
                                .first = kFirst});
  };
  Check(scan, y_, [&](std::size_t row, Matrix& state) {
    std::vector<double> y(size_, 0.0), sa(size_, 0.0);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) sa[j] += a.at(row, i) * state[i][j];
    }
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) {
        state[i][j] =
            state[i][j] * w_.at(row, i) + v_.at(row, j) * k_.at(row, i) + sa[j] * b.at(row, i);
        y[j] += state[i][j] * r_.at(row, i);
      }
    }
    return y;
  });
}

TEST_P(LinearAttentionTest, TheDeltaRuleAddsTheDifferenceToTheHeldValue) {
  // Each row contains the query, the key and the value of a token.
  Input rows(3 * size_, -1, 1, 9), gates(2, 0.5f, 1, 10);
  const float length = std::sqrt(static_cast<float>(size_));
  for (auto& row : rows.rows) {
    for (std::size_t i = 0; i < size_; ++i) row[kFirst + size_ + i] /= length;
  }
  std::vector<float*> betas;
  for (float* gate : gates.pointers) betas.push_back(gate + 1);
  const Scan scan = [&](const KernelTable& table, const HeadRows& head_rows, std::size_t row) {
    table.scan_delta_rule(head_rows, {.rows = rows.pointers.data() + row,
                                      .q_first = kFirst,
                                      .k_first = kFirst + size_,
                                      .v_first = kFirst + 2 * size_,
                                      .decay = gates.pointers.data() + row,
                                      .beta = betas.data() + row,
                                      .head = kFirst,
                                      .y = y_.pointers.data() + row,
                                      .y_first = kFirst});
  };
  Check(scan, y_, [&](std::size_t row, Matrix& state) {
    const auto q = [&](std::size_t i) { return rows.at(row, i); };
    const auto k = [&](std::size_t i) { return rows.at(row, size_ + i); };
    const auto v = [&](std::size_t i) { return rows.at(row, 2 * size_ + i); };
    std::vector<double> y(size_, 0.0);
    for (std::size_t j = 0; j < size_; ++j) {
      double held = 0;
      for (std::size_t i = 0; i < size_; ++i) {
        state[i][j] *= gates.at(row, 0);
        held += state[i][j] * k(i);
      }
      for (std::size_t i = 0; i < size_; ++i) {
        state[i][j] += k(i) * gates.at(row, 1) * (v(j) - held);
        y[j] += state[i][j] * q(i);
      }
    }
    return y;
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, LinearAttentionTest,
                         ::testing::Combine(::testing::Values("scalar", "avx2", "avx512", "amx"),
                                            ::testing::Values(1, 7, 8, 9, 16, 31, 33, 64, 128, 255,
                                                              257)),
                         [](const auto& named) {
                           return std::get<0>(named.param) + std::string("_") +
                                  std::to_string(std::get<1>(named.param));
                         });

}  // namespace
}  // namespace kvd::kernels
