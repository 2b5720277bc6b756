// RecordWriter and RecordReader: numbers and texts as the bytes of one record of a journal.
//
// Numbers have the machine's byte order (little-endian); a text and a list begin with a u32, their
// length; a truth value is one byte. A reader returns false where the bytes end too early.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kvd::http {

class RecordWriter {
 public:
  template <class Number>
    requires std::is_trivially_copyable_v<Number>
  void Put(const Number& number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void Put(const std::string& text) {
    Put(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  template <class Item>
    requires std::is_trivially_copyable_v<Item>
  void Put(const std::vector<Item>& items) {
    Put(static_cast<std::uint32_t>(items.size()));
    bytes_.append(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(Item));
  }
  // Puts the values one after the other.
  template <class... Values>
  void PutEach(const Values&... values) {
    (Put(values), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
    requires std::is_trivially_copyable_v<Number>
  bool Get(Number& number) {
    if (bytes_.size() < sizeof number) return false;
    std::memcpy(&number, bytes_.data(), sizeof number);
    bytes_.remove_prefix(sizeof number);
    return true;
  }
  // A byte that is neither 0 nor 1 is no truth value.
  bool Get(bool& flag) {
    std::uint8_t byte = 0;
    if (!Get(byte) || byte > 1) return false;
    flag = byte == 1;
    return true;
  }
  bool Get(std::string& text) {
    std::uint32_t count = 0;
    if (!Get(count) || bytes_.size() < count) return false;
    text.assign(bytes_.substr(0, count));
    bytes_.remove_prefix(count);
    return true;
  }
  template <class Item>
    requires std::is_trivially_copyable_v<Item>
  bool Get(std::vector<Item>& items) {
    std::uint32_t count = 0;
    if (!Get(count) || bytes_.size() / sizeof(Item) < count) return false;
    items.resize(count);
    if (count != 0) std::memcpy(items.data(), bytes_.data(), count * sizeof(Item));
    bytes_.remove_prefix(count * sizeof(Item));
    return true;
  }
  // Gets the values one after the other, up to the first that fails.
  template <class... Values>
  bool GetEach(Values&... values) {
    return (Get(values) && ...);
  }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

}  // namespace kvd::http
