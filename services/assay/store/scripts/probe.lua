#!lua flags=allow-oom
-- Try every command that our scripts use, on temporary keys that it removes again: shows whether the
-- user may call them, whether keys of the prefix may be written here, and whether the server knows
-- them. Two keys stay for a while, so that commands that wait find something at once.
-- ARGV: a name for the keys, milliseconds that two of them stay
-- Returns {command, error} for each that failed

local P = KEYS[1] .. 'probe:' .. ARGV[1] .. ':'
local text, hash, list, set, sorted, stream = P .. 's', P .. 'h', P .. 'l', P .. 'u', P .. 'z', P .. 'x'
local failed = {}

local function try(command, ...)
  local answer = redis.pcall(command, ...)
  if type(answer) == 'table' and answer.err then
    failed[#failed + 1] = { command, answer.err }
  end
end

try('TIME')
try('EXISTS', text)
try('SET', text, '1')
try('SET', text, '1', 'GET')
try('GET', text)
try('MGET', text)
try('MSET', text, '1')
try('GETRANGE', text, 0, 1)
try('INCR', text)
try('INCRBY', text, 1)
try('DECR', text)
try('DECRBY', text, 1)
try('APPEND', text, '0')
try('PEXPIREAT', text, '99999999999999')
try('PEXPIRETIME', text)
try('PERSIST', text)
try('PEXPIRE', text, 1000)
try('PTTL', text)
try('HSET', hash, 'a', '1')
try('HGET', hash, 'a')
try('HMGET', hash, 'a', 'b')
try('HGETALL', hash)
try('HSETNX', hash, 'c', '1')
try('HVALS', hash)
try('HEXISTS', hash, 'c')
try('HINCRBY', hash, 'a', 1)
try('HDEL', hash, 'a')
try('RPUSH', list, 'a')
try('LPUSH', list, 'b')
try('LRANGE', list, 0, 0)
try('LINDEX', list, 0)
try('LTRIM', list, 0, 1)
try('LPOP', list)
try('SADD', set, 'a', 'b')
try('SMEMBERS', set)
try('SCARD', set)
try('SRANDMEMBER', set)
try('SSCAN', set, '0')
try('SREM', set, 'a')
try('SPOP', set)
try('ZADD', sorted, 1, 'a', 2, 'b', 3, 'c')
try('ZCARD', sorted)
try('ZCOUNT', sorted, '-inf', '+inf')
try('ZSCORE', sorted, 'a')
try('ZINCRBY', sorted, 1, 'a')
try('ZRANGE', sorted, 0, 0)
try('ZREVRANGE', sorted, 0, 0)
try('ZRANGEBYSCORE', sorted, '-inf', '+inf', 'LIMIT', 0, 1)
try('ZSCAN', sorted, '0')
try('ZPOPMIN', sorted)
try('ZREM', sorted, 'b')
try('ZREMRANGEBYRANK', sorted, 0, 0)
try('ZREMRANGEBYSCORE', sorted, '-inf', '+inf')
try('XADD', stream, '*', 'a', 'b')
try('XREVRANGE', stream, '+', '-', 'COUNT', 1)
try('RENAMENX', text, text .. '2')
try('UNLINK', text .. '2')
try('DEL', text, hash, list, set, sorted, stream)
try('ZADD', sorted, 1, 'a')
try('PEXPIRE', sorted, ARGV[2])
try('RPUSH', list, 'a')
try('PEXPIRE', list, ARGV[2])
return failed
