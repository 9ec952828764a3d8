#!lua
-- Store payloads of requests before `submit` accepts them: the part of its work that grows with
-- their number, in parts so that other calls are served in between. Nothing is visible before the
-- `submit`; payloads without one are dropped. Keys: requests.lua.
-- ARGV: tenant batch kept_ms rows      rows: packed {static, payload} each, in one list
-- Returns {'DONE', first job} or {'NOT_FOUND'}
--@include requests.lua
--@include new_jobs.lua

local uid = ARGV[1] .. ':' .. ARGV[2]
local stage, gathers = unpack(call('HMGET', P .. 'b:' .. uid, 'first', 'gathers'))
if not stage then return { 'NOT_FOUND' } end
local rows = cmsgpack.unpack(ARGV[4])
local count = #rows / 2
local first = call('INCRBY', P .. 'seq', count) - count + 1
local packed = pack_new_job(uid, stage, gathers)
for i = 1, count do
  store_new_job(job_name(first + i - 1), packed, rows[2 * i - 1], rows[2 * i])
end
write_payloads()
call('ZADD', P .. 'staged', NOW_MS + tonumber(ARGV[3]), staged_name(first, count))
return { 'DONE', first }
