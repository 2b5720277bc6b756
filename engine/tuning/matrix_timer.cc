// A call first computes a few outputs, which brings the threads to work and tells how many outputs
// take kSliceSeconds, and then times so many outputs.
#include "engine/tuning/matrix_timer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/check.h"
#include "base/rounding.h"
#include "kernels/quantized_row.h"

namespace kvd {
namespace {

constexpr std::size_t kFirstColumns = 32;  // of each thread
constexpr std::size_t kColumnsMax = 4096;
constexpr std::size_t kOutputFloatsMax = std::size_t{4} << 20;

// The range of whole pages that covers the bytes.
struct Pages {
  std::byte* begin;
  std::size_t bytes;
};
Pages PagesOf(const std::byte* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto before = reinterpret_cast<std::uintptr_t>(data) % page;
  return {.begin = const_cast<std::byte*>(data) - before, .bytes = RoundUp(before + bytes, page)};
}

bool AreInMemory(const Pages& pages) {
  std::vector<unsigned char> is_resident(pages.bytes /
                                         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  if (::mincore(pages.begin, pages.bytes, is_resident.data()) != 0) return false;
  return std::ranges::all_of(is_resident, [](unsigned char page) { return (page & 1) != 0; });
}

}  // namespace

MatrixTimer::MatrixTimer(const Compute& compute, std::span<const GgufTensor> tensors,
                         std::size_t in_features_max, bool reads_weights)
    : compute_(compute), reads_weights_(reads_weights) {
  compute_.profile = nullptr;
  for (const kernels::DataType type : kernels::kDataTypes) {
    std::map<std::size_t, std::uint64_t> bytes_of;  // by in_features
    const auto usable = [&](const GgufTensor& tensor) {
      return tensor.type == type && tensor.rank >= 2 && tensor.dims[0] <= in_features_max &&
             tensor.dims[0] % kernels::kQuantizedBlock == 0 && tensor.dims[1] >= kFirstColumns;
    };
    for (const GgufTensor& tensor : tensors) {
      if (usable(tensor)) bytes_of[tensor.dims[0]] += tensor.bytes;
    }
    if (bytes_of.empty()) continue;
    const std::size_t in_features = std::ranges::max_element(bytes_of, {}, [](const auto& entry) {
                                      return entry.second;
                                    })->first;
    Matrices matrices{.type = type, .in_features = in_features, .tensors = {}};
    for (const GgufTensor& tensor : tensors) {
      if (usable(tensor) && tensor.dims[0] == in_features) matrices.tensors.push_back(&tensor);
    }
    matrices_.push_back(std::move(matrices));
  }
}

std::vector<kernels::DataType> MatrixTimer::types() const {
  std::vector<kernels::DataType> types;
  for (const Matrices& matrices : matrices_) types.push_back(matrices.type);
  return types;
}

MatrixTimer::Matrices* MatrixTimer::Find(kernels::DataType type) {
  const auto found = std::ranges::find(matrices_, type, &Matrices::type);
  return found == matrices_.end() ? nullptr : &*found;
}

bool MatrixTimer::Prepare(const TimedProduct& product) {
  const Matrices* const matrices = Find(product.type);
  if (matrices == nullptr) return true;
  const std::size_t n = matrices->in_features;
  const bool has_bf16 =
      kernels::Supports(*compute_.kernels, matrices->type, kernels::WideForm::kBf16);
  if (prepared_ != matrices || rows_ != product.rows) {
    prepared_ = matrices;
    rows_ = product.rows;
    ready_rows_ = 0;
    const auto floats = [&](InputForm form) {
      return rows_ * InputRowBytes(form, n) / sizeof(float);
    };
    x_ = FloatBuffer(rows_ * n);
    quantized_ =
        FloatBuffer(kernels::IsQuantized(matrices->type) ? floats(InputForm::kQuantized) : 0);
    rounded_ = FloatBuffer(has_bf16 ? floats(InputForm::kBf16) : 0);
  }
  if (ready_rows_ == rows_) return true;
  const std::size_t first = ready_rows_;
  const std::size_t count =
      std::min(rows_ - first, std::max<std::size_t>(1, kPreparedElements / n));
  for (std::size_t i = first * n; i < (first + count) * n; ++i) {
    // Any numbers of about the size of activations, positive and negative.
    x_.data()[i] = static_cast<float>(i * 2654435761u >> 16 & 2047) / 1024.0f - 1.0f;
  }
  const auto prepare = [&](InputForm form, const FloatBuffer& to) {
    PrepareInput(compute_, form, x_.data() + first * n, n, count, n,
                 reinterpret_cast<std::byte*>(to.data()) + first * InputRowBytes(form, n));
  };
  if (kernels::IsQuantized(matrices->type)) prepare(InputForm::kQuantized, quantized_);
  if (has_bf16) prepare(InputForm::kBf16, rounded_);
  ready_rows_ += count;
  return ready_rows_ == rows_;
}

MatrixTimer::Part MatrixTimer::NextPart(Matrices& matrices, std::size_t columns) const {
  const std::size_t threads = compute_.pool->thread_count();
  const auto outputs = [&] {
    const GgufTensor& tensor = *matrices.tensors[matrices.tensor];
    return static_cast<std::size_t>(tensor.dims[1] * tensor.dims[2] * tensor.dims[3]);
  };
  if (matrices.first_out + columns * threads > outputs()) {
    matrices.tensor = (matrices.tensor + 1) % matrices.tensors.size();
    matrices.first_out = 0;
    columns = std::max<std::size_t>(1, std::min(columns, outputs() / threads));
  }
  const std::size_t row_bytes = kernels::RowBytes(matrices.type, matrices.in_features);
  Part part{.linear = {}, .columns = columns};
  part.linear.weight = {
      .type = matrices.type,
      .in_features = matrices.in_features,
      .out_features = std::min(columns * threads, outputs()),
      .data = matrices.tensors[matrices.tensor]->data + matrices.first_out * row_bytes};
  matrices.first_out += part.linear.weight.out_features;
  return part;
}

bool MatrixTimer::BringIn(const Part& part) const {
  const WeightView& weight = part.linear.weight;
  const std::size_t bytes =
      weight.out_features * kernels::RowBytes(weight.type, weight.in_features);
  if (!reads_weights_ && !AreInMemory(PagesOf(weight.data, bytes))) return false;
  // Pages in memory that this process has not used yet are mapped here, not while they are timed.
  for (std::size_t at = 0; at < bytes; at += 4096) {
    (void)*static_cast<const volatile std::byte*>(weight.data + at);
  }
  return true;
}

double MatrixTimer::Run(const Part& part, const TimedProduct& product, InputForm form) {
  const std::size_t outputs = part.linear.weight.out_features;
  if (y_stride_ < outputs || y_rows_.size() < product.rows) {
    y_stride_ = std::max(y_stride_, outputs);
    y_ = FloatBuffer(y_stride_ * std::max<std::size_t>(product.rows, y_rows_.size()));
    y_rows_.resize(std::max<std::size_t>(product.rows, y_rows_.size()));
    for (std::size_t row = 0; row < y_rows_.size(); ++row) {
      y_rows_[row] = y_.data() + row * y_stride_;
    }
  }
  const LinearJob job{.linear = &part.linear,
                      .x = x_.data(),
                      .x_stride = part.linear.weight.in_features,
                      .y = y_rows_.data()};
  const ReadyJob ready{.job = &job,
                       .form = form,
                       .input = form == InputForm::kQuantized ? quantized_.data()
                                : form == InputForm::kBf16    ? rounded_.data()
                                                              : nullptr,
                       .row_count = product.rows};
  const auto begin = std::chrono::steady_clock::now();
  compute_.pool->Run(compute_.pool->thread_count(), [&](std::uint32_t worker, std::size_t unit) {
    const std::size_t first = std::min(outputs, unit * part.columns);
    RunColumns(compute_, ready, first, std::min(outputs, first + part.columns), worker);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::optional<double> MatrixTimer::Time(const TimedProduct& product) {
  Matrices* const matrices = Find(product.type);
  if (matrices == nullptr) return std::nullopt;
  KVD_ASSERT(prepared_ == matrices && rows_ == product.rows && ready_rows_ == rows_);
  const Part first = NextPart(*matrices, kFirstColumns);
  if (!BringIn(first)) return std::nullopt;
  compute_.choices.Set(product.type, product.choice);
  const InputForm form = FormFor(compute_, product.type, product.rows);
  const double first_seconds = Run(first, product, form);

  const std::size_t row_bytes = kernels::RowBytes(product.type, matrices->in_features);
  const auto in_time = static_cast<std::size_t>(static_cast<double>(first.columns) * kSliceSeconds /
                                                std::max(first_seconds, 1e-9));
  const std::size_t columns =
      std::min({in_time, kColumnsMax, kSliceBytes / row_bytes,
                kSliceProducts / (product.rows * matrices->in_features),
                kOutputFloatsMax / (product.rows * compute_.pool->thread_count())});
  const Part part =
      NextPart(*matrices, std::max(kFirstColumns, columns / kFirstColumns * kFirstColumns));
  if (!BringIn(part)) return std::nullopt;
  const double seconds = Run(part, product, form);
  return seconds / static_cast<double>(part.columns * product.rows * matrices->in_features);
}

}  // namespace kvd
