-- Jobs that no batch has accepted yet. Included after requests.lua.

local function job_name(number)
  return string.format('%016.0f', number)
end

-- The changing part of a job that has just arrived; requests of one call share it.
local function pack_new_job(uid, stage, gathers)
  return pack_job({ uid = uid, stage = stage, state = stage == gathers and 'G' or 'Q', attempts = 0, claims = 0, fence = 0,
    enqueued = NOW_US, claimed = 0, arrived = NOW_US, worker = '', stages_gone = 0, replayed = 0,
    error = '', charged = 0, weight = 1 })
end

local payloads = {} -- key, payload, ...: written in one command

local function store_new_job(job, packed, static, payload)
  call('HSET', P .. 'j:' .. job, 'S', static, 'D', packed)
  payloads[#payloads + 1] = P .. 'p:' .. job
  payloads[#payloads + 1] = payload
end

local function write_payloads()
  for first = 1, #payloads, SLICE do
    call('MSET', unpack(payloads, first, math.min(first + SLICE - 1, #payloads)))
  end
end

local function staged_name(first, count)
  return string.format('%.0f %.0f', first, count)
end

local function forget_new_job(job)
  doomed[#doomed + 1] = P .. 'j:' .. job
  doomed[#doomed + 1] = P .. 'p:' .. job
end

-- Drop jobs that no batch has accepted; no effect if one has, or if they are already dropped.
local function unstage(first, count)
  if call('ZREM', P .. 'staged', staged_name(first, count)) == 0 then return end
  for n = 0, count - 1 do forget_new_job(job_name(first + n)) end
end
